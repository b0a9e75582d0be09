// What the four limiters share: check the options once, check each call, build the request, and make a decision of what
// the store answers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/clock.hpp>
#include <ratelimit/decision.hpp>
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/key.hpp>
#include <ratelimit/period.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// A region's own limit (a token bucket's own capacity).
using region_limits = std::map<std::string, std::int64_t, std::less<>>;

namespace detail {

// A limiter's options, whatever its algorithm calls its numbers.
struct settings {
  std::string name;
  rule numbers;
  fail on_failure;
  scope by;
  region_limits per_region;
  std::chrono::microseconds deadline;
  bool shadow;
  std::string prefix;
  std::string key_head{};  // what the keys have in common; made of the rest
};

[[noreturn]] inline void refuse(std::string_view option, std::string_view value, std::string_view must) {
  std::string text{"ratelimit: "};
  throw std::invalid_argument{text.append(option).append(": ").append(value).append(" ").append(must)};
}

inline void require_count(std::string_view option, std::int64_t value) {
  if (value < 1 || value > max_exact) refuse(option, std::to_string(value), "is not within 1 and 2^53 - 1");
}

inline void require_window(std::string_view option, period length) {
  if (length.count() < 1000 || length.count() > std::chrono::microseconds{std::chrono::years{10}}.count())
    refuse(option, std::to_string(length.count()) + "us", "is not within 1 ms and 10 years");
}

inline void require_short(std::string_view option, std::string_view text) {
  if (text.size() > max_key_part) refuse(option, std::to_string(text.size()) + " bytes", "is longer than 512 bytes");
}

inline void require_valid(const settings& s) {
  require_short("name", s.name);
  require_short("prefix", s.prefix);
  if (s.prefix.find_first_of("{}") != std::string::npos)
    refuse("prefix", s.prefix, "holds a brace: the hash tag is the identity's");
  for (const auto& [region, limit] : s.per_region) {
    require_short("per_region", region);
    require_count("per_region[\"" + region + "\"]", limit);
  }
  if (s.deadline < std::chrono::microseconds{1} || s.deadline > std::chrono::hours{1})
    refuse("deadline", std::to_string(s.deadline.count()) + "us", "is not within 1 us and 1 hour");
}

}  // namespace detail

// The members of every limiter. Thread-safe, cheap to copy. The store must outlive them.
template <class Algorithm, store Store, time_source Clock>
class limiter {
 public:
  // Decides, and counts `cost` units when allowed; a cost of 0 is a peek. One round trip. Throws nothing that Redis,
  // the network or the caller's bytes can cause; an identity that is empty or over 512 bytes, a region over 512 bytes
  // and a negative cost are denied as source::invalid, whatever on_failure says.
  decision check(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return ask(operation::take, identity, region, cost);
  }

  // What check would answer now; changes nothing. `used` and `remaining` are those before such a call.
  decision peek(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return ask(operation::peek, identity, region, cost);
  }

  // Gives back `cost` units that a failed request took, the newest first: never more than are in force, so never above
  // the quota, and never what a window gone by took. The decision tells the quota after it.
  decision refund(std::string_view identity, std::string_view region, std::int64_t cost) const {
    return ask(operation::refund, identity, region, cost);
  }

  // Forgets this key. Empty when done; otherwise why not.
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    if (const std::error_code bad = invalid(identity, region, 0)) return bad;
    const detail::key key{settings_->key_head, settings_->by, identity, region};
    const request what{Algorithm::id, operation::reset, key.view(), settings_->numbers, 1, std::nullopt};
    return store_->run(what, deadline{settings_->deadline}).error;
  }

 protected:
  limiter(Store& where, detail::settings chosen, Clock clock) : store_{&where}, clock_{std::move(clock)} {
    detail::require_valid(chosen);
    chosen.key_head = detail::key_head(chosen.prefix, Algorithm::tag, chosen.name);
    settings_ = std::make_shared<const detail::settings>(std::move(chosen));
  }

 private:
  decision ask(operation op, std::string_view identity, std::string_view region, std::int64_t cost) const {
    const rule numbers = numbers_for(region);
    decision d{.limit_name = settings_->name,
               .limit = numbers.limit,
               .window = std::chrono::microseconds{Algorithm::span(numbers)}};
    if (const std::error_code bad = invalid(identity, region, cost)) {
      d.error = bad;
      d.at = local_time();
      return enforce(d);
    }

    const deadline until{settings_->deadline};
    const detail::key key{settings_->key_head, settings_->by, identity, region};
    // A cost above the limit never passes: what is left to ask is how the quota stands.
    const bool never = op != operation::refund && cost > numbers.limit;
    if (cost == 0 || never) op = operation::peek;
    const std::int64_t asked = never ? 1 : std::clamp<std::int64_t>(cost, 1, detail::max_exact);
    const outcome seen = store_->run({Algorithm::id, op, key.view(), numbers, asked, clock_time()}, until);
    if (seen.error) {
      d.from = settings_->on_failure == fail::open ? source::failed_open : source::failed_closed;
      d.allowed = settings_->on_failure == fail::open;
      d.error = seen.error;
      d.at = local_time();
      return enforce(d);
    }

    using std::chrono::microseconds;
    const algorithm::figures f = Algorithm::explain(numbers, seen, asked);
    d.allowed = op == operation::refund || (seen.allowed && !never);
    d.from = Store::origin;
    d.used = f.used;
    d.remaining = algorithm::remaining(numbers, f.used);
    if (!d.allowed && !never) d.retry_after = microseconds{f.retry};
    d.reset_after = microseconds{f.reset};
    d.full_after = microseconds{f.full};
    d.at = time_point{microseconds{seen.now}};
    return enforce(d);
  }

  decision enforce(decision d) const {
    if (settings_->shadow && !d.allowed) {
      d.would_deny = true;
      d.allowed = true;
      d.retry_after.reset();
    }
    return d;
  }

  // Only what the key is made of is checked: the rest is not stored.
  std::error_code invalid(std::string_view identity, std::string_view region, std::int64_t cost) const {
    if (counts_identity(settings_->by) && (identity.empty() || identity.size() > max_key_part))
      return errc::invalid_identity;
    if (counts_region(settings_->by) && region.size() > max_key_part) return errc::invalid_region;
    if (cost < 0) return errc::invalid_cost;
    return {};
  }

  rule numbers_for(std::string_view region) const {
    rule numbers = settings_->numbers;
    if (const auto own = settings_->per_region.find(region); own != settings_->per_region.end())
      numbers.limit = own->second;
    return numbers;
  }

  // Kept within what the scripts hold exactly.
  std::optional<std::int64_t> clock_time() const {
    const std::optional<time_point> now = clock_.now();
    if (!now) return std::nullopt;
    return std::clamp(std::int64_t{now->time_since_epoch().count()}, -detail::max_exact, detail::max_exact);
  }
  time_point local_time() const { return std::optional<time_point>{clock_.now()}.value_or(system_clock{}.now()); }

  Store* store_;
  Clock clock_;
  std::shared_ptr<const detail::settings> settings_;  // shared by copies, so that limit_name stays valid
};

}  // namespace ratelimit
