// The exact limit: no trailing window ever holds more than `limit` units. Costs memory for each call in the window.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <ratelimit/algorithm/sliding_log.hpp>
#include <ratelimit/limiter.hpp>

namespace ratelimit {

struct sliding_log_options {
  // Part of the key, and the policy's name in headers; at most 512 bytes. Two limits need two names.
  std::string name{};
  // Units that pass in one window, 1 to 2^53 - 1.
  std::int64_t limit = 0;
  // Length of the window, 1 ms to 10 years.
  period window{};
  // fail::open or fail::closed when the store cannot be asked. No default.
  failure_choice on_failure;
  // What has a quota of its own; default: each identity in each region.
  scope by = scope::identity_and_region;
  // Regions with a limit of their own, in units; the others have `limit`.
  region_limits per_region{};
  // How long one call may take, all in all; default 25 ms. What a store cannot bound, its own header says.
  period deadline = std::chrono::milliseconds{25};
  // Decide and report, never deny: what would have been denied has would_deny set, and is not counted.
  bool shadow = false;
  // Before each key; at most 512 bytes, no braces.
  std::string prefix = "ratelimit:";
};

// Throws std::invalid_argument, with the option's name and value, for options out of range.
template <store Store, time_source Clock = server_clock>
class sliding_log : public limiter<algorithm::sliding_log, Store, Clock> {
 public:
  using options = sliding_log_options;

  sliding_log(Store& where, options chosen, Clock clock = Clock{})
      : limiter<algorithm::sliding_log, Store, Clock>{where, settings(std::move(chosen)), std::move(clock)} {}

 private:
  static detail::settings settings(options chosen) {
    detail::require_count("limit", chosen.limit);
    detail::require_window("window", chosen.window);
    return {.name = std::move(chosen.name),
            .numbers = {.limit = chosen.limit, .window = chosen.window.count()},
            .on_failure = chosen.on_failure,
            .by = chosen.by,
            .per_region = std::move(chosen.per_region),
            .deadline = chosen.deadline,
            .shadow = chosen.shadow,
            .prefix = std::move(chosen.prefix)};
  }
};

}  // namespace ratelimit
