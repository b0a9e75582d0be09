// Stores that stand between a combination and a real one, to see and to disturb what is asked.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

namespace joint {

// Keeps its keys apart, as a cluster may: they are asked one after the other.
template <class Store>
class apart {
 public:
  static constexpr ratelimit::source origin = Store::origin;

  explicit apart(Store& inner) : inner_{&inner} {}

  ratelimit::outcome run(const ratelimit::request& what, const ratelimit::deadline& until) {
    asked.push_back({what.op, std::string{what.key}, what.cost});
    ratelimit::request timed = what;
    if (meddle) {
      if (const std::optional<ratelimit::outcome> made = meddle(timed)) return *made;
    }
    return inner_->run(timed, until);
  }
  bool can_join(std::span<const ratelimit::request> what) const { return what.size() == 1; }
  void run_many(std::span<const ratelimit::request> what, std::size_t together, std::span<ratelimit::outcome> out,
                const ratelimit::deadline& until) {
    if (together != 1) throw std::logic_error{"keys that are apart were joined"};
    for (std::size_t i = 0; i < what.size(); ++i) out[i] = run(what[i], until);
  }

  struct question {
    ratelimit::operation op;
    std::string key;
    std::int64_t cost;
    bool operator==(const question&) const = default;
  };
  std::vector<question> asked{};
  // Called before each request; may change it, or answer in the store's place.
  std::function<std::optional<ratelimit::outcome>(ratelimit::request&)> meddle{};

 private:
  Store* inner_;
};

// Cannot be asked, and remembers until when it was.
class broken {
 public:
  static constexpr ratelimit::source origin = ratelimit::source::redis;

  ratelimit::outcome run(const ratelimit::request&, const ratelimit::deadline& until) {
    asked_until.push_back(until.at());
    return {.error = why};
  }
  bool can_join(std::span<const ratelimit::request>) const { return joins; }
  void run_many(std::span<const ratelimit::request> what, std::size_t, std::span<ratelimit::outcome> out,
                const ratelimit::deadline& until) {
    for (std::size_t i = 0; i < what.size(); ++i) out[i] = run(what[i], until);
  }

  bool joins = true;
  std::error_code why = ratelimit::errc::timeout;
  std::vector<ratelimit::deadline::clock::time_point> asked_until{};
};

}  // namespace joint
