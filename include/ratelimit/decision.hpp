// The answer to one call: allowed, denied, or nobody could be asked, with every number a caller or a header needs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include <ratelimit/detail/integer.hpp>

namespace ratelimit {

// Microseconds since the Unix epoch: the only unit of time inside the library and its scripts.
using time_point = std::chrono::sys_time<std::chrono::microseconds>;

// Where an answer came from.
enum class source : std::uint8_t {
  redis,          // counted by the Redis store
  memory,         // counted by the in-process store
  deny_cache,     // a refusal this process remembers; the store was not asked again
  local,          // the store could not be asked; fail::local counted in this process
  failed_open,    // the store could not be asked; fail::open let the call pass
  failed_closed,  // the store could not be asked; fail::closed refused it (answer 503, not 429)
  invalid,        // the call itself was malformed (see error); never sent
  unlimited,      // no limit stands for this call (policy.hpp)
};

constexpr std::string_view to_string(source from) noexcept {
  switch (from) {
    case source::redis: return "redis";
    case source::memory: return "memory";
    case source::deny_cache: return "deny_cache";
    case source::local: return "local";
    case source::failed_open: return "failed_open";
    case source::failed_closed: return "failed_closed";
    case source::invalid: return "invalid";
    case source::unlimited: return "unlimited";
  }
  return "unknown";
}

struct decision {
  bool allowed = false;
  source from = source::invalid;
  // Why the call was not counted by the store; empty when it was.
  std::error_code error{};
  // The limit that decided. Views the limiter's own name: valid as long as a copy of that limiter lives.
  std::string_view limit_name{};
  // The ceiling that applied, in units (per_region may have replaced the limiter's own).
  std::int64_t limit = 0;
  // Units in force after this call; for a sliding_counter the estimate, rounded down.
  std::int64_t used = 0;
  // Exactly so many more calls of cost 1 pass at this instant. Never negative.
  std::int64_t remaining = 0;
  // Only when denied, and only when waiting can help: with no other traffic the same call is denied one microsecond
  // earlier and allowed then. Never 0.
  std::optional<std::chrono::microseconds> retry_after{};
  // The wait after which remaining would be larger; 0 when the quota is full.
  std::chrono::microseconds reset_after{0};
  // The wait after which used would be 0; 0 when it is.
  std::chrono::microseconds full_after{0};
  // The time it was decided by: the clock's, or the server's for server_clock.
  time_point at{};
  // Shadow mode: the verdict that was not enforced.
  bool would_deny = false;
  // The time `limit` units are meant for: the window, or the time a token bucket takes to fill. What RateLimit-Policy
  // calls w.
  std::chrono::microseconds window{0};
  // The call's request_id was counted before: this call counted nothing.
  bool repeated = false;

  // False when nobody counted: then used, remaining, reset_after and full_after say nothing.
  bool counted() const noexcept {
    return from == source::redis || from == source::memory || from == source::deny_cache || from == source::local;
  }
  // How full the quota is: 0 unused, 1 exhausted; above 1 after the limit was lowered.
  double usage_ratio() const noexcept {
    return limit > 0 ? static_cast<double>(used) / static_cast<double>(limit) : 0.0;
  }
  explicit operator bool() const noexcept { return allowed; }
};

// Whether `a` binds the caller more than `b`: a refusal before anything else; what was counted before what nobody
// counted; of refusals the longest wait first, and one that no waiting ends before that; of the others the smallest
// share of its limit left.
inline bool binds_before(const decision& a, const decision& b) noexcept {
  if (a.allowed != b.allowed) return !a.allowed;
  if (a.counted() != b.counted()) return a.counted();
  if (!a.allowed) return b.retry_after && (!a.retry_after || *a.retry_after > *b.retry_after);
  return detail::int128{a.remaining} * b.limit < detail::int128{b.remaining} * a.limit;
}

}  // namespace ratelimit
