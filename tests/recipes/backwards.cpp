// Time that runs backwards: a skewed server, a step of the clock, a failover. It gives no quota back and trims nothing
// early, and no wait is told that is longer than the key lives.
#include <string>
#include <thread>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;
using told = std::vector<std::string>;

}  // namespace

// The entry of a call before the newest one is put at the newest one's time.
TEMPLATE_TEST_CASE("A log under a clock that steps back", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 3, 60s),
         {{0s, take(), pass(1, 2, 60s, 60s)},
          {-5s, take(), pass(2, 1, 60s, 60s)},
          {-1h, take(), pass(3, 0, 60s, 60s)},
          {-1h, take(), deny(3, 0, 60s, 60s, 60s)},
          {-1us, take(), deny(3, 0, 60s, 60s, 60s)},
          {30s, take(), deny(3, 0, 30s, 30s, 30s)},
          {60s - 1us, take(), deny(3, 0, 1us, 1us, 1us)},
          {60s, take(2), pass(2, 1, 60s, 60s)},
          {50s, take(), pass(3, 0, 60s, 60s)},
          {120s - 1us, take(), deny(3, 0, 1us, 1us, 1us)},
          {120s, take(), pass(1, 2, 60s, 60s)}});
}

// An entry that is out by a clock that went too far stays out: its successor was taken then.
TEMPLATE_TEST_CASE("A log under a clock that steps forth and back", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 2, 60s),
         {{0s, take(2), pass(2, 0, 60s, 60s)},
          {1h, take(), pass(1, 1, 60s, 60s)},
          {1s, take(), pass(2, 0, 60s, 60s)},
          {2s, take(), deny(2, 0, 60s, 60s, 60s)},
          {1h + 59s, take(), deny(2, 0, 1s, 1s, 1s)},
          {1h + 60s, take(), pass(1, 1, 60s, 60s)}});
}

// The window in force stays in force; while the clock is before it, the window before weighs in full.
TEMPLATE_TEST_CASE("A counter under a clock that steps back", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_counter(b, 10, 60s),
         {{-60s, take(4), pass(4, 6, 60s + 1us, 105s + 1us)},
          {0s, take(3), pass(7, 3, 1us, 100'000'001us)},
          {-1us, peek(), pass(7, 3, 2us, 100'000'002us)},
          {-1us, take(4), deny(7, 3, 2us, 2us, 100'000'002us)},
          {-1h, take(4), deny(7, 3, 120s, 120s, 120s)},
          {-1h, take(3), pass(10, 0, 120s, 120s)},
          {-1s, take(), deny(10, 0, 1s + 1us, 1s + 1us, 111s + 1us)},
          {0s, take(), deny(10, 0, 1us, 1us, 110s + 1us)},
          {1us, take(), pass(10, 0, 15s, 111'428'571us)}});
}

// The level is true at the time it was taken at: it grows again when the clock has passed that.
TEMPLATE_TEST_CASE("A bucket under a clock that steps back", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 10, 10, 600s),
         {{0s, take(10), pass(10, 0, 60s, 600s)},
          {-30s, take(), deny(10, 0, 90s, 90s, 600s)},
          {-1h, take(), deny(10, 0, 600s, 600s, 600s)},
          {60s - 1us, take(), deny(10, 0, 1us, 1us, 540s + 1us)},
          {60s, take(), pass(10, 0, 60s, 600s)},
          // Five come by a clock that goes too far; after it is set right none comes twice.
          {360s, take(5), pass(10, 0, 60s, 600s)},
          {60s, take(), deny(10, 0, 360s, 360s, 600s)},
          {360s, take(), deny(10, 0, 60s, 60s, 600s)},
          {420s, take(), pass(10, 0, 60s, 600s)}});
  follow(b, token_bucket(b, 10, 10, 600s, "half full"),
         {{0s, take(5), pass(5, 5, 60s, 300s)},
          {-30s, take(1), pass(6, 4, 90s, 360s)},
          {-30s, take(5), deny(6, 4, 90s, 90s, 360s)},
          {30s, peek(), pass(6, 4, 30s, 330s)}});
}

TEMPLATE_TEST_CASE("A fixed window under a clock that steps back", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, fixed_window(b, 3, 60s),
         {{0s, take(2), pass(2, 1, 60s, 60s)},
          {-1us, take(2), deny(2, 1, 60s, 60s, 60s)},
          {-30s, take(), pass(3, 0, 60s, 60s)},
          {-1h, take(), deny(3, 0, 60s, 60s, 60s)},
          {20s, take(), deny(3, 0, 40s, 40s, 40s)},
          {60s - 1us, take(), deny(3, 0, 1us, 1us, 1us)},
          {60s, take(3), pass(3, 0, 60s, 60s)}});
}

// The lifetime written then is the longest that the algorithm ever needs, not the distance to the time ahead.
TEST_CASE("A clock that steps back does not make a key live longer", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto lifetimes_of = [&](const auto& limiter) {
    b.clock.set(w0);
    CHECK(limiter.check("client").allowed);
    b.clock.set(w0 - 1h);
    CHECK(limiter.check("client").allowed);
    return watch.lifetimes();
  };
  CHECK(lifetimes_of(sliding_log(b, 2, 60s)) == told{"60000", "60000"});
  CHECK(lifetimes_of(sliding_counter(b, 2, 60s)) == told{"120000", "120000"});
  CHECK(lifetimes_of(token_bucket(b, 2, 2, 60s)) == told{"30000", "60000"});
  CHECK(lifetimes_of(fixed_window(b, 2, 60s)) == told{"60000", "60000"});
}

// Where the clock stays behind for good, the key's own end gives the quota back: after its lifetime, which runs by the
// store's clock and is really waited for here.
TEMPLATE_TEST_CASE("What lies ahead of the clock ends with its key", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 2, 50ms, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(w0);
    CHECK(limiter.check("client", "eu", 2).allowed);
    b.clock.set(w0 - 1h);
    std::this_thread::sleep_for(110ms);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(2));
    CHECK(limiter.check("client", "eu", 2).allowed);
  });
}
