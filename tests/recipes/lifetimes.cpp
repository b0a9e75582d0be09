// How long a key lives: as long as its state matters, and no longer.
#include <limits>
#include <string>
#include <vector>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;
using told = std::vector<std::string>;

std::string key_of(const std::string& tag) {
  return "ratelimit:" + tag + ":recipe:{client}:";
}

}  // namespace

TEST_CASE("A lost lifetime is repaired by the next call, let through or not", "[recipes]") {
  for (const std::int64_t limit : {1, 2}) {
    on_redis b;
    monitor watch{b.server};
    with_each(b, limit, 60s, [&](const auto& limiter, const std::string& tag) {
      INFO(tag << ", limit " << limit);
      b.clock.set(w0);
      CHECK(limiter.check("client").allowed);
      CHECK(b.server.command({"PTTL", key_of(tag)}).number > 0);
      CHECK(b.server.command({"PERSIST", key_of(tag)}).number == 1);
      CHECK(limiter.peek("client").used == 1);
      CHECK(b.server.command({"PTTL", key_of(tag)}).number == -1);  // a peek writes nothing
      watch.commands();

      CHECK(limiter.check("client").allowed == (limit == 2));
      CHECK(watch.lifetimes() == told{tag == "counter" ? "120000" : "60000"});
      CHECK(b.server.command({"PTTL", key_of(tag)}).number > 0);
      // The client recovers within one window, and is told when.
      const auto denied = limiter.check("client");
      CHECK_FALSE(denied.allowed);
      b.clock.advance(denied.retry_after.value());
      CHECK(denied.retry_after.value() <= 60s + 1us);
      CHECK(limiter.check("client").allowed);
    });
  }
}

// The lifetime goes to the window's end, whichever call writes it: a slow client is never banned in the end.
TEMPLATE_TEST_CASE("A fixed window never moves", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto window = fixed_window(b, 100, 2min);
  for (int i = 0; i <= 60; ++i) {
    b.clock.set(w0 + i * 30s);
    const std::chrono::seconds left{120 - i % 4 * 30};
    CHECK(figures(window.check("client")) == pass(i % 4 + 1, 99 - i % 4, left, left));
  }
}

TEST_CASE("A fixed window's key ends with the window, whoever writes it", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto window = fixed_window(b, 2, 2min);
  for (int i = 0; i < 4; ++i) {
    window.check("client");
    b.clock.advance(30s);
  }
  CHECK(watch.lifetimes() == told{"120000", "90000"});  // the two that were refused wrote nothing
}

// Below a millisecond a lifetime is one, never 0 and never left out.
TEST_CASE("A lifetime is rounded up", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto lifetime_of = [&](const auto& limiter) {
    const auto d = limiter.check("client");
    CHECK(d.allowed);
    check_counted(b, d);
    return watch.lifetimes();
  };
  CHECK(lifetime_of(token_bucket(b, 1, 5000, 1s, "200 us")) == told{"1"});
  CHECK(lifetime_of(token_bucket(b, 1, 3, 1s, "a third")) == told{"334"});
  CHECK(lifetime_of(token_bucket(b, 6000, 6000, 1s, "a sixth")) == told{"1"});
  CHECK(lifetime_of(token_bucket(b, 1000, 1000, 60s, "60 ms")) == told{"60"});
  CHECK(lifetime_of(sliding_log(b, 2, 50ms)) == told{"50"});
  b.clock.advance(1us);
  CHECK(lifetime_of(fixed_window(b, 2, 5ms)) == told{"5"});
  CHECK(lifetime_of(sliding_counter(b, 2, 5ms)) == told{"10"});
  b.clock.set(w0 + 60s - 1us);
  CHECK(lifetime_of(fixed_window(b, 2, 60s, "last moment")) == told{"1"});
}

// In memory the recipe's own times. On Redis, where the keys would be gone before the next call, a hundred
// thousand times as long: the numbers of tokens are the same.
TEMPLATE_TEST_CASE("Fast rates limit like slow ones", "[recipes]", on_memory, on_redis) {
  TestType b;
  const time_point start{1'700'000'000s};  // of a window of 5 ms, and of 500 s
  b.clock.set(start);
  const microseconds ms = TestType::origin == ratelimit::source::memory ? 1ms : 100s;
  CHECK(allowed(token_bucket(b, 1000, 1000, 60'000 * ms, "1000 a minute"), 2000) == 1000);
  CHECK(allowed(token_bucket(b, 1, 3, 1000 * ms, "3 a second"), 10) == 1);
  CHECK(allowed(token_bucket(b, 1, 5000, 1000 * ms, "5000 a second"), 10) == 1);
  const auto quick = token_bucket(b, 6000, 6000, 1000 * ms, "6000 a second");
  const auto first = quick.check("client");
  CHECK(first.remaining == 5999);
  for (int i = 0; i < 10; ++i) {
    b.clock.advance(first.reset_after);
    CHECK(figures(quick.peek("client")) == untouched(6000));
  }
  b.clock.set(start);
  follow(b, sliding_log(b, 2, 50 * ms),
         {{0us, take(), pass(1, 1, 50 * ms, 50 * ms)},
          {0us, take(), pass(2, 0, 50 * ms, 50 * ms)},
          {0us, take(), deny(2, 0, 50 * ms, 50 * ms, 50 * ms)}},
         start);
  follow(b, fixed_window(b, 2, 5 * ms),
         {{0us, take(), pass(1, 1, 5 * ms, 5 * ms)},
          {0us, take(), pass(2, 0, 5 * ms, 5 * ms)},
          {0us, take(), deny(2, 0, 5 * ms, 5 * ms, 5 * ms)}},
         start);
}

TEMPLATE_TEST_CASE("The window before weighs until its successor ends", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_counter(b, 10, 60s),
         {{0s, take(), pass(1, 9, 60'000'001us, 60'000'001us)},
          {59s, take(), pass(2, 8, 1'000'001us, 31'000'001us)},
          {59s, take(), pass(3, 7, 1'000'001us, 41'000'001us)},
          {59s, take(), pass(4, 6, 1'000'001us, 46'000'001us)},
          {59s, take(), pass(5, 5, 1'000'001us, 49'000'001us)},
          {59s, take(), pass(6, 4, 1'000'001us, 51'000'001us)},
          {59s, take(), pass(7, 3, 1'000'001us, 52'428'572us)},
          {59s, take(), pass(8, 2, 1'000'001us, 53'500'001us)},
          {59s, take(), pass(9, 1, 1'000'001us, 54'333'334us)},
          {61s, take(), pass(9, 1, 5'666'667us, 59'000'001us)},
          {61s, take(), pass(10, 0, 5'666'667us, 89'000'001us)},
          {61s, take(), deny(10, 0, 5'666'667us, 5'666'667us, 89'000'001us)},
          {66'666'666us, take(), deny(10, 0, 1us, 1us, 83'333'335us)},
          {66'666'667us, take(), pass(10, 0, 6'666'667us, 93'333'334us)}});
  const auto once = sliding_counter(b, 10, 60s, "once");
  follow(b, once,
         {{0s, take(), pass(1, 9, 60'000'001us, 60'000'001us)},
          {60s, peek(), pass(1, 9, 1us, 1us)},
          {60s + 1us, peek(), untouched(10)},
          {120s, peek(), untouched(10)}});
}

TEST_CASE("A counter's key lives to the end of the next window", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto counter = sliding_counter(b, 10, 60s);
  for (const microseconds at : {0s, 59s, 61s}) {
    b.clock.set(w0 + at);
    counter.check("client");
  }
  CHECK(watch.lifetimes() == told{"120000", "61000", "119000"});
}

// A part of a token counts too, and the time to the next whole millisecond.
TEST_CASE("A bucket's key lives until the bucket is full", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto bucket = token_bucket(b, 5, 3, 40s);
  for (const auto& [at, cost] : {std::pair{microseconds{0s}, 5}, {microseconds{17s}, 1}, {17'000'001us, 0}, {30s, 1}}) {
    b.clock.set(w0 + at);
    bucket.check("client", "eu", cost);
  }
  // 5 * 40 s / 3 for all of it; then what is missing after 17 s and after 30 s, fractions and all.
  CHECK(watch.lifetimes() == told{"66667", "63000", "63334"});
}

// 31 536 000 000 ms: more than 32 bits hold.
TEMPLATE_TEST_CASE("A year is a window like any other", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto year = 365 * 24h;
  const time_point start{53 * year};
  follow(b, fixed_window(b, 1, year),
         {{0s, take(), pass(1, 0, year, year)},
          {0s, take(), deny(1, 0, year, year, year)},
          {year - 1us, take(), deny(1, 0, 1us, 1us, 1us)},
          {year, take(), pass(1, 0, year, year)}},
         start);
  const microseconds longest = std::chrono::years{10};
  with_each(b, 1, longest, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(time_point{4 * longest});
    CHECK(limiter.check("decade").allowed);
    b.clock.advance(longest - 1us);
    CHECK_FALSE(limiter.check("decade").allowed);
  });
  if constexpr (TestType::origin == ratelimit::source::redis) {
    monitor watch{b.server};
    b.clock.set(start + year);
    fixed_window(b, 1, year).check("another");
    CHECK(watch.lifetimes() == told{"31536000000"});
  }
}

TEMPLATE_TEST_CASE("A bucket that rested for years is full, not negative", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds all = TestType::second, one = all / 1'000'000;
  const auto bucket = token_bucket(b, 1'000'000, 1'000'000, all);
  const auto years = std::chrono::duration_cast<microseconds>(std::chrono::years{10});
  for (const microseconds rest : {microseconds{12h}, years}) {
    follow(b, bucket, {{0s, take(1'000'000), pass(1'000'000, 0, one, all)}});
    // The old state must be met, not a new key.
    if constexpr (TestType::origin == ratelimit::source::redis)
      CHECK(b.server.command({"PERSIST", "ratelimit:bucket:recipe:{client}:eu"}).number == 1);
    follow(b, bucket, {{rest, take(), pass(1, 999'999, one, one)}});
    CHECK_FALSE(bucket.reset("client", "eu"));
  }
}
