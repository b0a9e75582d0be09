// The two places where a recipe counts: in this process, and on a real server. A recipe is a template over them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <ratelimit/ratelimit.hpp>
#include <ratelimit/redis.hpp>

#include "support/server.hpp"

namespace recipes {

using namespace std::chrono_literals;
using ratelimit::manual_clock;
using ratelimit::time_point;
using std::chrono::microseconds;

// The recipes' W0: a multiple of 1 s, 10 s and 60 s.
inline constexpr time_point w0{microseconds{1'700'000'040'000'000}};
// A multiple of a day as well, and of every window that a recipe is stretched to.
inline constexpr time_point midnight{microseconds{1'700'006'400'000'000}};

// A deadline that a busy machine does not miss.
inline constexpr std::chrono::seconds patience{30};

// One server for the whole program, emptied for each test.
inline support::server& empty_server() {
  static support::server one;
  one.command({"FLUSHALL"});
  return one;
}

struct on_memory {
  static constexpr ratelimit::source origin = ratelimit::source::memory;
  // A recipe's second, here.
  static constexpr std::chrono::seconds second{1};

  ratelimit::memory store;
  manual_clock clock{w0};

  std::size_t keys() const { return store.size(); }
};

struct on_redis {
  static constexpr ratelimit::source origin = ratelimit::source::redis;
  // A key's lifetime in Redis runs by the server's own clock, also while the injected one stands still. Where a recipe
  // has lifetimes that a busy machine might outlast, its second is a minute here: the arithmetic knows no unit.
  static constexpr std::chrono::seconds second{60};

  support::server& server = empty_server();
  ratelimit::redis store{server.url()};
  manual_clock clock{w0};

  std::size_t keys() { return static_cast<std::size_t>(server.command({"DBSIZE"}).number); }
};

// The limiters of a recipe, with the options that recipes do not speak of.
template <class Backend>
auto sliding_log(Backend& b, std::int64_t limit, ratelimit::period window, std::string name = "recipe") {
  return ratelimit::sliding_log{b.store,
                                {.name = std::move(name),
                                 .limit = limit,
                                 .window = window,
                                 .on_failure = ratelimit::fail::closed,
                                 .deadline = patience},
                                b.clock};
}

template <class Backend>
auto sliding_counter(Backend& b, std::int64_t limit, ratelimit::period window, std::string name = "recipe") {
  return ratelimit::sliding_counter{b.store,
                                    {.name = std::move(name),
                                     .limit = limit,
                                     .window = window,
                                     .on_failure = ratelimit::fail::closed,
                                     .deadline = patience},
                                    b.clock};
}

template <class Backend>
auto token_bucket(Backend& b, std::int64_t capacity, std::int64_t refill, ratelimit::period per,
                  std::string name = "recipe") {
  return ratelimit::token_bucket{b.store,
                                 {.name = std::move(name),
                                  .capacity = capacity,
                                  .refill = refill,
                                  .per = per,
                                  .on_failure = ratelimit::fail::closed,
                                  .deadline = patience},
                                 b.clock};
}

template <class Backend>
auto fixed_window(Backend& b, std::int64_t limit, ratelimit::period window, std::string name = "recipe") {
  return ratelimit::fixed_window{b.store,
                                 {.name = std::move(name),
                                  .limit = limit,
                                  .window = window,
                                  .on_failure = ratelimit::fail::closed,
                                  .deadline = patience},
                                 b.clock};
}

// Calls `use` with each of the four, a quota of `limit` per `window` (a bucket refills as much), and its key's tag.
template <class Backend, class Use>
void with_each(Backend& b, std::int64_t limit, ratelimit::period window, const Use& use) {
  use(sliding_log(b, limit, window), "log");
  use(sliding_counter(b, limit, window), "counter");
  use(token_bucket(b, limit, limit, window), "bucket");
  use(fixed_window(b, limit, window), "window");
}

}  // namespace recipes
