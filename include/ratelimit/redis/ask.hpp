// Requests put to one server, and the few repetitions that cannot count twice.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <ratelimit/failure.hpp>
#include <ratelimit/redis/answer.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/script.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// A refusal that passes by itself is waited out, for 1, 2 and 4 ms, as long as the deadline leaves the time.
class pauses {
 public:
  explicit pauses(const deadline& until) noexcept : until_{until} {}

  // True after a pause; false at once when there were enough of them, or there is no time for one.
  bool pause() {
    if (next_ > longest || until_.left() <= next_) return false;
    std::this_thread::sleep_for(next_);
    next_ *= 2;
    return true;
  }

 private:
  static constexpr std::chrono::milliseconds longest{4};

  const deadline& until_;
  std::chrono::milliseconds next_{1};
};

// A string that keeps its memory for this thread's next one. A second at the same time, in a callback, is just a
// string.
class kept_string {
 public:
  kept_string() noexcept { text_.swap(kept()); }
  kept_string(const kept_string&) = delete;
  kept_string& operator=(const kept_string&) = delete;
  ~kept_string() { text_.swap(kept()); }

  std::string& cleared() noexcept {
    text_.clear();
    return text_;
  }

 private:
  static std::string& kept() noexcept {
    static thread_local std::string text;
    return text;
  }

  std::string text_;
};

inline outcome ask_one(pool& server, const request& what, const deadline& until) {
  kept_string memory;
  pauses between{until};
  for (named_by name = named_by::sha1;;) {
    std::string& command = memory.cleared();
    append_request(command, what, name);
    reading made;
    const std::error_code failed = server.call(command, 1, until, [&](const redisReply& got) {
      made = read_reply(what, got);
      return made.error();
    });
    if (failed) return {.error = failed};
    if (made.ask == again::by_source && name == named_by::sha1) {
      name = named_by::source;
    } else if (made.ask != again::later || !between.pause()) {
      return made.result;
    }
  }
}

// Each `together` requests are one group; see batch_store. One pipeline for all; another for those asked again.
inline void ask_many(pool& server, std::span<const request> what, std::size_t together, std::span<outcome> out,
                     const deadline& until) {
  struct asked_group {
    std::size_t group;
    named_by name;
  };
  std::vector<asked_group> asked;
  for (std::size_t group = 0; group < what.size() / together; ++group) asked.push_back({group, named_by::sha1});
  pauses between{until};
  std::string commands;
  for (;;) {
    commands.clear();
    for (const auto& [group, name] : asked) append_group(commands, what.subspan(group * together, together), name);
    std::vector<asked_group> unknown, refused;
    std::size_t heard = 0;
    const std::error_code failed = server.call(commands, asked.size(), until, [&](const redisReply& got) {
      const auto [group, name] = asked[heard++];
      const group_reading made =
          read_group(what.subspan(group * together, together), got, out.subspan(group * together, together));
      if (made.ask == again::by_source && name == named_by::sha1) unknown.push_back({group, named_by::source});
      if (made.ask == again::later) refused.push_back({group, name});
      return made.error();
    });
    for (; heard < asked.size(); ++heard)
      for (outcome& one : out.subspan(asked[heard].group * together, together)) one = {.error = failed};
    if (!refused.empty() && between.pause()) unknown.insert(unknown.end(), refused.begin(), refused.end());
    if (unknown.empty()) return;
    asked = std::move(unknown);
  }
}

}  // namespace ratelimit::detail
