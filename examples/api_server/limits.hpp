// The limits of the API, all of them.
#pragma once

#include <chrono>

#include <ratelimit/ratelimit.hpp>

namespace api_server {

using namespace std::chrono_literals;
using ratelimit::fail;
using ratelimit::scope;

// Exact: the page is dear to make. Each account has a quota in each region, and the regions are not of one size.
inline const ratelimit::sliding_log_options discover_limit{
    .name = "discover",
    .limit = 20,
    .window = 1min,
    .on_failure = fail::open,
    .per_region = {{"br", 30}, {"de", 30}, {"fr", 20}, {"gb", 30}, {"in", 40}, {"jp", 25}, {"kr", 25}, {"us", 60}}};

// The top tier's, which hold together. Any region may be asked more often, but not all of them at once: that would be a
// copy of the catalogue. The day's quota is what was paid for.
inline const ratelimit::sliding_log_options top_region_limit{
    .name = "top-region", .limit = 100, .window = 1min, .on_failure = fail::open};
inline const ratelimit::fixed_window_options top_day_limit{
    .name = "top-day", .limit = 5000, .window = 24h, .on_failure = fail::open, .by = scope::identity};
inline const ratelimit::sliding_log_options top_ceiling_limit{.name = "top-ceiling",
                                                              .limit = 150,
                                                              .window = 1min,
                                                              .storage = ratelimit::log_storage::compact,
                                                              .on_failure = fail::open,
                                                              .by = scope::identity};

// Anybody may ask, so there may be millions to count: a few bytes each. While Redis is away this process counts by
// itself, up to its share: we run four of it.
inline const ratelimit::sliding_counter_options trending_limit{.name = "trending",
                                                               .limit = 40,
                                                               .window = 1min,
                                                               .on_failure = fail::local,
                                                               .by = scope::identity,
                                                               .local_share = 0.25};

// Bursts are welcome, steady load is not, and a large page costs more than a small one. What the search engine is not
// protected from takes it down: rather no search than an uncounted one.
inline const ratelimit::token_bucket_options search_limit{
    .name = "search", .capacity = 30, .refill = 1, .per = 1s, .on_failure = fail::closed, .by = scope::identity};

// The fast path: the least work for each call, and good enough, since a title comes out of a cache.
inline const ratelimit::fixed_window_options title_limit{
    .name = "title", .limit = 120, .window = 1min, .on_failure = fail::open, .by = scope::identity};

// Passwords that may be tried; the last failure begins the pause. Nobody signs in uncounted: an outage would be the
// time to guess.
inline const ratelimit::sliding_log_options login_limit{
    .name = "login", .limit = 3, .window = 5min, .on_failure = fail::closed, .by = scope::identity};
inline constexpr std::chrono::minutes login_pause{15};

// Every route that has no limit of its own, unknown ones included.
inline const ratelimit::sliding_counter_options default_limit{
    .name = "default", .limit = 60, .window = 1min, .on_failure = fail::open, .by = scope::identity};

}  // namespace api_server
