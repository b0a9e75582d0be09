// Options that changed between two starts of a program: the new ones win at once over the state they find.
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;

}  // namespace

TEMPLATE_TEST_CASE("A smaller bucket holds what fits", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 20, 20, 600s), {{0s, take(), pass(1, 19, 30s, 30s)}});
  follow(b, token_bucket(b, 10, 10, 600s),
         {{0s, peek(), untouched(10)}, {0s, take(12), never(0, 10, 0us, 0us)}, {0s, take(10), pass(10, 0, 60s, 600s)}});
}

TEMPLATE_TEST_CASE("A restart with the same options changes nothing", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 20, 20, 60s), {{0s, take(20), pass(20, 0, 3s, 60s)}});
  follow(b, token_bucket(b, 20, 20, 60s),
         {{10s, take(), pass(18, 2, 2s, 53s)},
          {10s, take(), pass(19, 1, 2s, 56s)},
          {10s, take(), pass(20, 0, 2s, 59s)},
          {10s, take(), deny(20, 0, 2s, 2s, 59s)}});
}

TEMPLATE_TEST_CASE("A lowered limit shows at once and never below nothing", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, fixed_window(b, 10, 60s), {{0s, take(8), pass(8, 2, 60s, 60s)}});
  follow(b, fixed_window(b, 5, 60s), {{0s, peek(), deny(8, 0, 60s, 60s, 60s)}, {60s, take(5), pass(5, 0, 60s, 60s)}});
  follow(
      b, sliding_log(b, 10, 60s),
      {{0s, take(3), pass(3, 7, 60s, 60s)}, {10s, take(), pass(4, 6, 50s, 60s)}, {20s, take(4), pass(8, 2, 40s, 60s)}});
  // Of the 8 units in force 4 must go before there is one below 5 again: the first three and the one after.
  follow(b, sliding_log(b, 5, 60s),
         {{30s, take(), deny(8, 0, 40s, 40s, 50s)},
          {70s - 1us, take(), deny(5, 0, 1us, 1us, 10s + 1us)},
          {70s, take(), pass(5, 0, 10s, 60s)}});
  follow(b, sliding_counter(b, 10, 60s), {{0s, take(8), pass(8, 2, 60s + 1us, 112'500'001us)}});
  follow(b, sliding_counter(b, 5, 60s),
         {{0s, take(), deny(8, 0, 82'500'001us, 82'500'001us, 112'500'001us)},
          {82'500'000us, take(), deny(5, 0, 1us, 1us, 30'000'001us)},
          {82'500'001us, take(), pass(5, 0, 7'500'000us, 37'500'000us)}});
}

// The window is no part of the key: the stored start is taken to the new grid, and never waits for more than the old
// window's end.
TEMPLATE_TEST_CASE("A shorter fixed window is usable again within it", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, fixed_window(b, 5, 60s), {{0s, take(5), pass(5, 0, 60s, 60s)}});
  follow(b, fixed_window(b, 5, 10s),
         {{0s, take(), deny(5, 0, 10s, 10s, 10s)},
          {10s - 1us, take(), deny(5, 0, 1us, 1us, 1us)},
          {10s, take(), pass(1, 4, 10s, 10s)}});
}

TEMPLATE_TEST_CASE("A log's new window counts the old entries", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 5, 60s), {{0s, take(5), pass(5, 0, 60s, 60s)}});
  follow(b, sliding_log(b, 5, 10s),
         {{10s - 1us, take(), deny(5, 0, 1us, 1us, 1us)}, {20s, take(), pass(1, 4, 10s, 10s)}});
  follow(b, sliding_log(b, 5, 60s),
         {{21s, take(), pass(2, 3, 59s, 60s)},
          {80s - 1us, peek(), pass(2, 3, 1us, 1s + 1us)},
          {80s, peek(), pass(1, 4, 1s, 1s)}});
}

// The window's end is by the newest entry's time, also for a clock that is behind it.
TEMPLATE_TEST_CASE("A shorter log trims by the time it has reached", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 5, 60s), {{0s, take(3), pass(3, 2, 60s, 60s)}, {50s, take(), pass(4, 1, 10s, 60s)}});
  follow(b, sliding_log(b, 5, 10s), {{5s, peek(), pass(1, 4, 10s, 10s)}, {55s, peek(), pass(1, 4, 5s, 5s)}});
}

TEST_CASE("A log's longer window gives its key a longer life", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  sliding_log(b, 5, 10s).check("client");
  b.clock.advance(1s);
  sliding_log(b, 5, 60s).check("client");
  CHECK(watch.lifetimes() == std::vector<std::string>{"10000", "60000"});
}

// The key says which algorithm wrote it: the others never meet it.
TEMPLATE_TEST_CASE("A changed algorithm begins with a full quota", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 3, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(3));
    CHECK(allowed(limiter, 4) == 3);
    check_counted(b, limiter.check("client", "eu"));
  });
  CHECK(b.keys() == 4);
}

// per_region is looked up on each call: a region's own limit reads the count that another limit wrote.
TEMPLATE_TEST_CASE("A region has its own limit", "[recipes]", on_memory, on_redis) {
  TestType b;
  const ratelimit::fixed_window limiter{b.store,
                                        {.name = "recipe",
                                         .limit = 2,
                                         .window = 60s,
                                         .on_failure = ratelimit::fail::closed,
                                         .per_region = {{"us", 3}, {"", 1}},
                                         .deadline = patience},
                                        b.clock};
  CHECK(allowed(limiter, 5, "client", "eu") == 2);
  CHECK(allowed(limiter, 5, "client", "us") == 3);
  CHECK(allowed(limiter, 5, "client", "") == 1);
  CHECK(limiter.peek("client", "eu").limit == 2);
  CHECK(limiter.peek("client", "us").limit == 3);
  CHECK(limiter.peek("client").limit == 1);
  CHECK(b.keys() == 3);
  const ratelimit::token_bucket bucket{b.store,
                                       {.name = "recipe",
                                        .capacity = 2,
                                        .refill = 1,
                                        .per = 60s,
                                        .on_failure = ratelimit::fail::closed,
                                        .by = ratelimit::scope::identity,
                                        .per_region = {{"us", 4}},
                                        .deadline = patience},
                                       b.clock};
  // One bucket over all regions: full for eu with two tokens, of which us had room for four.
  CHECK(figures(bucket.check("client", "us", 3)) == pass(3, 1, 60s, 180s));
  CHECK(bucket.peek("client", "us").window == 240s);
  CHECK(figures(bucket.check("client", "eu")) == pass(2, 0, 60s, 120s));
  CHECK(bucket.peek("client", "eu").window == 120s);
  CHECK(figures(bucket.check("client", "us")) == deny(4, 0, 60s, 60s, 240s));
}
