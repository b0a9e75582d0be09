// The sliding limit in constant memory: two counters, the previous window's weighted by what is left of it. Exact when
// calls come evenly; otherwise off by as much as the previous window was uneven.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <ratelimit/algorithm/sliding_counter.hpp>
#include <ratelimit/limiter.hpp>

namespace ratelimit {

struct sliding_counter_options {
  // Part of the key, and the policy's name in headers; at most 512 bytes. Two limits need two names.
  std::string name{};
  // Units that pass in one window, 1 to 2^53 - 1.
  std::int64_t limit = 0;
  // Length of the window, 1 ms to 10 years, aligned to the epoch.
  period window{};
  // fail::open, fail::closed or fail::local: what happens when the store cannot be asked. No default.
  failure_choice on_failure;
  // What has a quota of its own; default: each identity in each region.
  scope by = scope::identity_and_region;
  // Regions with a limit of their own, in units; the others have `limit`.
  region_limits per_region{};
  // How long one call may take, all in all; default 25 ms. What a store cannot bound, its own header says.
  period deadline = std::chrono::milliseconds{25};
  // Refusals with a known wait that this process remembers, so that a client that hammers costs the store nothing;
  // default 0: off. About 500 bytes each (deny_cache.hpp says what may be stale).
  std::size_t deny_cache = 0;
  // What fail::local may admit in this process, as a fraction of the limit, 0.001 to 1; default 1. With n processes
  // take 1/n, or they admit n times the limit while the store is away.
  double local_share = 1;
  // Decide and report, never deny: what would have been denied has would_deny set, and is not counted.
  bool shadow = false;
  // Who is told of decisions (observer.hpp); default nobody.
  ratelimit::observer observer = ratelimit::observer();
  // Before each key; at most 512 bytes, no braces. Keys of two prefixes never meet, unless one begins with the other.
  std::string prefix = "ratelimit:";
};

// Throws std::invalid_argument, with the option's name and value, for options out of range.
template <store Store, time_source Clock = server_clock>
class sliding_counter : public limiter<algorithm::sliding_counter, Store, Clock> {
 public:
  using options = sliding_counter_options;

  sliding_counter(Store& where, options chosen, Clock clock = Clock{})
      : limiter<algorithm::sliding_counter, Store, Clock>{where, settings(std::move(chosen)), std::move(clock)} {}

 private:
  static detail::settings settings(options chosen) {
    detail::require_count("limit", chosen.limit);
    detail::require_window("window", chosen.window);
    const rule numbers{.limit = chosen.limit, .window = chosen.window.count()};
    return detail::settings_of<algorithm::sliding_counter>(std::move(chosen), numbers);
  }
};

}  // namespace ratelimit
