// Rounding, fractions of a token, units of time.
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;

// The instants just below a power of two at which (now + interval) - interval is not now in floating point, and W0.
constexpr microseconds instants[] = {
    100ms, 700ms, 1999900us, 3900ms, 7990ms, 31970ms, 127950ms, 4095990ms, w0.time_since_epoch()};

}  // namespace

// An unseen bucket is full at every instant: the wait for its first token is whole-number arithmetic.
TEMPLATE_TEST_CASE("The first call of a fresh identity is never denied", "[recipes]", on_memory, on_redis) {
  TestType b;
  // The identity is no part of the arithmetic: over the wire go ten thousand in all, in memory at each instant.
  const int identities = TestType::origin == ratelimit::source::memory ? 10'000 : 1'112;
  const auto third = microseconds{(microseconds{TestType::second}.count() + 2) / 3};
  const auto bucket = token_bucket(b, 1, 3, TestType::second);
  for (const microseconds at : instants) {
    INFO("at " << at.count() << " us");
    b.clock.set(time_point{at});
    int wrong = 0;
    for (int i = 0; i < identities; ++i) {
      const std::string identity = std::to_string(at.count()) + "/" + std::to_string(i);
      wrong += figures(bucket.peek(identity)) != untouched(1);
      wrong += figures(bucket.check(identity)) != pass(1, 0, third, third);
      wrong += figures(bucket.check(identity)) != deny(1, 0, third, third, third);
    }
    CHECK(wrong == 0);
  }
  check_counted(b, bucket.check("one more"));
}

TEMPLATE_TEST_CASE("A bucket of three lets three pass at every instant", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds all = TestType::second;
  const microseconds one{(all.count() + 2) / 3}, two{(2 * all.count() + 2) / 3};
  for (const microseconds at : instants) {
    const auto bucket = token_bucket(b, 3, 3, all, "at" + std::to_string(at.count()));
    follow(b, bucket,
           {{0us, peek(), untouched(3)},
            {0us, take(), pass(1, 2, one, one)},
            {0us, take(), pass(2, 1, one, two)},
            {0us, take(), pass(3, 0, one, all)},
            {0us, take(), deny(3, 0, one, one, all)}},
           time_point{at});
  }
}

// A client that polls faster than the refill still gets every token: a refusal does not move the time it grows from.
TEMPLATE_TEST_CASE("Polling does not starve the refill", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto bucket = token_bucket(b, 1, 1, 10s);
  std::vector<long long> passed;
  for (microseconds at = 0ms; at <= 60s; at += 300ms) {
    b.clock.set(w0 + at);
    const auto d = bucket.check("client");
    // Denied calls are told when the token is whole: 10 s after the one before.
    if (d.allowed) {
      CHECK(figures(d) == pass(1, 0, 10s, 10s));
      passed.push_back(at / 1ms);
    } else {
      const microseconds due = std::chrono::milliseconds{passed.back()} + 10s - at;
      CHECK(figures(d) == deny(1, 0, due, due, due));
    }
  }
  CHECK(passed == std::vector<long long>{0, 10'200, 20'400, 30'600, 40'800, 51'000});
}

TEMPLATE_TEST_CASE("Fractions of a token survive every call", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds ms = TestType::second / 1000us * 1us;
  follow(b, token_bucket(b, 10, 2, TestType::second),
         {{0 * ms, take(), pass(1, 9, 500 * ms, 500 * ms)},
          {600 * ms, take(10), pass(10, 0, 500 * ms, 5000 * ms)},
          {1000 * ms, take(), deny(10, 0, 100 * ms, 100 * ms, 4600 * ms)},
          {1100 * ms, take(), pass(10, 0, 500 * ms, 5000 * ms)}});
}

TEMPLATE_TEST_CASE("A token a day comes after exactly a day", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 1, 1, 24h),
         {{0s, take(), pass(1, 0, 24h, 24h)},
          {24h - 1ms, take(), deny(1, 0, 1ms, 1ms, 1ms)},
          {24h - 1us, take(), deny(1, 0, 1us, 1us, 1us)},
          {24h, take(), pass(1, 0, 24h, 24h)}});
}

// 7 at once and 21 that come in nine days, the last of them with the last call: 4320 minutes / 7 is no whole number.
TEMPLATE_TEST_CASE("Seven tokens in three days lose nothing in nine", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto bucket = token_bucket(b, 7, 7, 72h);
  int passed = 0;
  for (auto at = 0min; at < 9 * 24h; at += 1min) {
    b.clock.set(w0 + at);
    passed += bucket.check("client").allowed;
  }
  CHECK(passed == 27);
  b.clock.set(w0 + 9 * 24h);
  CHECK(bucket.check("client").allowed);
}

TEMPLATE_TEST_CASE("A window is the same in seconds and in milliseconds", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto both = [&](const auto& in_seconds, const auto& in_milliseconds) {
    for (std::int64_t used = 1; used <= 6; used += 2) {
      CHECK(in_seconds.check("client").used == used);
      const auto d = in_milliseconds.check("client");
      CHECK(d.used == used + 1);
      CHECK(d.window == 60s);
    }
  };
  both(sliding_log(b, 10, 60s), sliding_log(b, 10, 60'000ms));
  both(sliding_counter(b, 10, 60s), sliding_counter(b, 10, 60'000ms));
  both(token_bucket(b, 10, 10, 60s), token_bucket(b, 10, 10, 60'000ms));
  both(fixed_window(b, 10, 60s), fixed_window(b, 10, 60'000ms));
  CHECK(b.keys() == 4);
}

TEST_CASE("A lifetime is in milliseconds, and what the algorithm needs", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto lifetime_of = [&](const auto& limiter) {
    CHECK(limiter.check("client").allowed);
    return watch.lifetimes();
  };
  using told = std::vector<std::string>;
  CHECK(lifetime_of(fixed_window(b, 10, 60s)) == told{"60000"});
  CHECK(lifetime_of(sliding_log(b, 10, 60s)) == told{"60000"});
  CHECK(lifetime_of(sliding_counter(b, 10, 60s)) == told{"120000"});
  CHECK(lifetime_of(token_bucket(b, 10, 10, 60s)) == told{"6000"});
  CHECK(lifetime_of(fixed_window(b, 10, 1500ms, "short")) == told{"1500"});
  for (const std::string key : {"window:recipe", "log:recipe", "counter:recipe", "bucket:recipe", "window:short"}) {
    const long long left = b.server.command({"PTTL", "ratelimit:" + key + ":{client}:"}).number;
    CHECK(left <= (key == "counter:recipe" ? 120'000 : 60'000));
  }
}

// 1 500 ms, neither cut to 1 s nor rounded to 2 s.
TEMPLATE_TEST_CASE("A window of one second and a half lasts that long", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds ms = TestType::second / 1000us * 1us;
  follow(b, fixed_window(b, 1, 1500 * ms),
         {{0 * ms, take(), pass(1, 0, 1500 * ms, 1500 * ms)},
          {1000 * ms, take(), deny(1, 0, 500 * ms, 500 * ms, 500 * ms)},
          {1500 * ms - 1us, take(), deny(1, 0, 1us, 1us, 1us)},
          {1500 * ms, take(), pass(1, 0, 1500 * ms, 1500 * ms)},
          {3000 * ms - 1us, take(), deny(1, 0, 1us, 1us, 1us)},
          {3000 * ms, take(), pass(1, 0, 1500 * ms, 1500 * ms)}},
         midnight);
}
