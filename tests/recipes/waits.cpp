// remaining, retry_after, reset_after, full_after: what a client is told.
#include <string>

#include <ratelimit/http/headers.hpp>

#include "rows.hpp"

namespace {

using namespace recipes;

// A response field's value; empty where it is not sent.
std::string header(const ratelimit::decision& d, std::string_view name) {
  for (const auto& [field, value] : ratelimit::http::headers(d))
    if (field == name) return value;
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("What a counter says is left does pass", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto counter = sliding_counter(b, 100, 60s);
  b.clock.set(w0 + 10s);
  CHECK(allowed(counter, 50) == 50);
  CHECK(figures(counter.peek("client", "eu")) == pass(50, 50, 50'000'001us, 108'800'001us));
  follow(b, counter,
         {{66s, take(), pass(46, 54, 1us, 54'000'001us)},
          {66s, take(), pass(47, 53, 1us, 84'000'001us)},
          {66s, take(), pass(48, 52, 1us, 94'000'001us)},
          {66s, take(), pass(49, 51, 1us, 99'000'001us)},
          {66s, take(), pass(50, 50, 1us, 102'000'001us)},
          {66s, take(), pass(51, 49, 1us, 104'000'001us)},
          {66s, take(), pass(52, 48, 1us, 105'428'572us)},
          {66s, take(), pass(53, 47, 1us, 106'500'001us)},
          {66s, take(), pass(54, 46, 1us, 107'333'334us)},
          {66s, take(), pass(55, 45, 1us, 108'000'001us)}});
  CHECK(allowed(counter, 45) == 45);
  // One microsecond later the weighted part has fallen below 45. Nothing is ever told below 0, with a cost of 7 too.
  follow(b, counter,
         {{66s, take(0), deny(100, 0, 1us, 1us, 112'909'091us)},
          {66s, take(7), deny(100, 0, 7'200'001us, 1us, 112'909'091us)},
          {66s, take(), deny(100, 0, 1us, 1us, 112'909'091us)},
          {66s + 1us, take(), pass(100, 0, 1'200'000us, 112'928'571us)},
          {66s + 1us, take(7), deny(100, 0, 8'400'000us, 1'200'000us, 112'928'571us)}});
}

TEMPLATE_TEST_CASE("After n are left exactly n pass", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 23, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(w0 + 50s);
    for (const std::int64_t cost : {9, 4, 1}) {
      const auto d = limiter.check("client", "eu", cost);
      CHECK(d.allowed);
      b.clock.advance(4'321'987us);
    }
    for (int round = 0; round < 5; ++round) {
      const auto left = limiter.peek("client", "eu", 0).remaining;
      CHECK(allowed(limiter, static_cast<int>(left)) == left);
      const auto denied = limiter.check("client", "eu");
      CHECK_FALSE(denied.allowed);
      CHECK(denied.remaining == 0);
      b.clock.advance(denied.retry_after.value());
    }
  });
}

TEMPLATE_TEST_CASE("A counter's wait is the estimate's, not the window's end", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto counter = sliding_counter(b, 60, 60s);
  CHECK(allowed(counter, 61) == 60);
  b.clock.set(w0 + 72s);
  CHECK(allowed(counter, 11) == 11);
  follow(b, counter,
         {{72s, take(), pass(60, 0, 1us, 103'000'001us)},
          {72s, take(), deny(60, 0, 1us, 1us, 103'000'001us)},
          {73s, take(), pass(60, 0, 1us, 102'384'616us)}});
}

// The last unit is let through, and the next one is free later, not now.
TEMPLATE_TEST_CASE("Taking the last unit tells when there is another", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto window = fixed_window(b, 10, 60s);
  CHECK(allowed(window, 9) == 9);
  follow(b, window, {{0s, take(), pass(10, 0, 60s, 60s)}, {20s, take(), deny(10, 0, 40s, 40s, 40s)}});
  follow(b, token_bucket(b, 10, 1, 1s), {{0s, take(10), pass(10, 0, 1s, 10s)}, {0s, take(), deny(10, 0, 1s, 1s, 10s)}});
  const auto log = sliding_log(b, 2, 60s);
  follow(b, log,
         {{0s, take(), pass(1, 1, 60s, 60s)},
          {20s, take(), pass(2, 0, 40s, 60s)},
          {20s, peek(2), deny(2, 0, 60s, 40s, 60s)}});
}

TEMPLATE_TEST_CASE("A wait below a second is a second in a header", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds ms = TestType::second / 1000us * 1us;
  const auto bucket = token_bucket(b, 1, 10, TestType::second);
  follow(b, bucket,
         {{0us, take(), pass(1, 0, 100 * ms, 100 * ms)}, {0us, take(), deny(1, 0, 100 * ms, 100 * ms, 100 * ms)}});
  if constexpr (TestType::origin == ratelimit::source::memory)
    CHECK(header(bucket.check("client", "eu"), "Retry-After") == "1");

  // 1 000, 1 001 and 59 999 ms before the end of a minute.
  const auto window = fixed_window(b, 1, 60s);
  CHECK(header(window.check("client", "eu"), "Retry-After").empty());
  const auto told_at = [&](microseconds before_end) {
    b.clock.set(w0 + 60s - before_end);
    return header(window.check("client", "eu"), "Retry-After");
  };
  CHECK(told_at(1000ms) == "1");
  CHECK(told_at(1001ms) == "2");
  CHECK(told_at(59'999ms) == "60");
}

TEMPLATE_TEST_CASE("Who waits as told is not refused again", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto window = fixed_window(b, 1, TestType::second);
  b.clock.set(midnight + 123'457us);
  for (int i = 0; i < 100; ++i) {
    CHECK(window.check("client").allowed);
    const auto denied = window.check("client");
    CHECK_FALSE(denied.allowed);
    const int wait = std::stoi(header(denied, "Retry-After"));
    CHECK(wait >= 1);
    b.clock.advance(std::chrono::seconds{wait});
  }
}

TEMPLATE_TEST_CASE("What has run out is full now", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 5, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(w0);
    CHECK(allowed(limiter, 6) == 5);
    b.clock.advance(120s);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(5));
    b.clock.advance(24h);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(5));
    CHECK(figures(limiter.peek("nobody", "eu")) == untouched(5));
  });
}
