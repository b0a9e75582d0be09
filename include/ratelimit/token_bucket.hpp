// The limit for bursts: `capacity` units at once, then `refill` of them each `per`. Exact: no fraction of a token is
// lost or made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include <ratelimit/algorithm/token_bucket.hpp>
#include <ratelimit/limiter.hpp>

namespace ratelimit {

struct token_bucket_options {
  // Part of the key, and the policy's name in headers; at most 512 bytes. Two limits need two names.
  std::string name{};
  // Units that pass at once after a rest, 1 to 2^53 - 1.
  std::int64_t capacity = 0;
  // Units that come back each `per`, 1 to 2^53 - 1.
  std::int64_t refill = 0;
  // 1 ms to 10 years.
  period per{};
  // fail::open, fail::closed or fail::local: what happens when the store cannot be asked. No default.
  failure_choice on_failure;
  // What has a quota of its own; default: each identity in each region.
  scope by = scope::identity_and_region;
  // Regions with a capacity of their own, in units; the others have `capacity`.
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
class token_bucket : public limiter<algorithm::token_bucket, Store, Clock> {
 public:
  using options = token_bucket_options;

  token_bucket(Store& where, options chosen, Clock clock = Clock{})
      : limiter<algorithm::token_bucket, Store, Clock>{where, settings(std::move(chosen)), std::move(clock)} {}

 private:
  static detail::settings settings(options chosen) {
    detail::require_count("capacity", chosen.capacity);
    detail::require_count("refill", chosen.refill);
    detail::require_window("per", chosen.per);
    const std::int64_t common = std::gcd(chosen.refill, chosen.per.count());
    const rule numbers{
        .limit = chosen.capacity, .window = chosen.per.count() / common, .refill = chosen.refill / common};
    return detail::settings_of<algorithm::token_bucket>(std::move(chosen), numbers);
  }
};

}  // namespace ratelimit
