// Where a window ends, and what counts in it.
#include <string>

#include "rows.hpp"

namespace {

using namespace recipes;

// A key's bytes and the instant it dies: what a call that leaves no trace does not change.
std::string trace(support::server& server, const std::string& key) {
  return server.command({"DUMP", key}).text + "/" + std::to_string(server.command({"PEXPIRETIME", key}).number);
}

}  // namespace

TEMPLATE_TEST_CASE("An entry exactly one window old is out", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 2, 10s),
         {{0s, take(), pass(1, 1, 10s, 10s)},
          {4s, take(), pass(2, 0, 6s, 10s)},
          {9999ms, take(), deny(2, 0, 1ms, 1ms, 4001ms)},
          {10s - 1us, take(), deny(2, 0, 1us, 1us, 4s + 1us)},
          {10s, take(), pass(2, 0, 4s, 10s)},
          {13'999ms, take(), deny(2, 0, 1ms, 1ms, 6001ms)},
          {14s, take(), pass(2, 0, 6s, 10s)}});
}

// Filled at the last moment, asked again at each step to the end of what it holds: a denial always names a wait, and
// the wait is exact.
TEMPLATE_TEST_CASE("No denial says that now is the time", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto longer = TestType::second / 1s;
  with_each(b, 7, 70 * TestType::second, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(w0 + 20s);
    for (const std::int64_t cost : {3, 1, 2, 1}) {
      CHECK(limiter.check("client", {}, cost).allowed);
      b.clock.advance(longer * 1'234'567us);
    }
    int denials = 0;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t cost = 1 + i * 3 % 7;
      const auto d = limiter.check("client", {}, cost);
      if (!d.allowed) {
        ++denials;
        CHECK(d.retry_after.value() > 0us);
        b.clock.advance(*d.retry_after - 1us);
        CHECK_FALSE(limiter.peek("client", {}, cost).allowed);
        b.clock.advance(1us);
        CHECK(limiter.check("client", {}, cost).allowed);
      }
      b.clock.advance(longer * 777'777us);
    }
    CHECK(denials >= 10);
  });
}

// A client above the rate still gets the rate: what was refused does not count.
TEMPLATE_TEST_CASE("Half of a doubled rate passes a log", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto log = sliding_log(b, 10, 10min);
  int passed = 0;
  for (int i = 0; i < 120; ++i) {
    b.clock.set(w0 + i * 30s);
    const bool due = i % 20 < 10;
    const auto d = log.check("client");
    CHECK(d.allowed == due);
    CHECK(d.used == (i < 10 ? i + 1 : 10));
    if (!due) CHECK(d.retry_after == (20 - i % 20) * 30s);
    passed += d.allowed;
  }
  CHECK(passed == 60);
  b.clock.set(w0 + 1h);
  CHECK(figures(log.check("client")) == pass(10, 0, 30s, 10min));
}

TEMPLATE_TEST_CASE("A raised limit helps at once whoever was refused", "[recipes]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto before = fixed_window(b, 10, 1h);
  CHECK(allowed(before, 50) == 10);
  CHECK(figures(before.check("client", "eu")) == deny(10, 0, 1h, 1h, 1h));
  const auto after = fixed_window(b, 20, 1h);
  CHECK(figures(after.peek("client", "eu")) == pass(10, 10, 1h, 1h));
  CHECK(allowed(after, 10) == 10);
  CHECK(figures(after.check("client", "eu")) == deny(20, 0, 1h, 1h, 1h));
}

TEST_CASE("A thousand refusals, peeks and faulty calls leave no trace", "[recipes]") {
  on_redis b;
  with_each(b, 3, 600s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    const std::string key = "ratelimit:" + tag + ":recipe:{client}:eu";
    CHECK(allowed(limiter, 3) == 3);
    const std::string before = trace(b.server, key);
    const auto standing = figures(limiter.peek("client", "eu", 0));
    for (int i = 0; i < 250; ++i) {
      CHECK_FALSE(limiter.check("client", "eu").allowed);
      CHECK_FALSE(limiter.check("client", "eu", 4).allowed);
      CHECK_FALSE(limiter.check("client", "eu", -1).allowed);
      CHECK_FALSE(limiter.peek("client", "eu").allowed);
    }
    CHECK(trace(b.server, key) == before);
    CHECK(figures(limiter.peek("client", "eu", 0)) == standing);
    if (tag == "log") CHECK(b.server.command({"ZCARD", key}).number == 3);
  });
  CHECK(b.keys() == 4);
}

// Old entries are trimmed before they are counted.
TEMPLATE_TEST_CASE("The first call after a quiet window passes", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 3, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    b.clock.set(w0);
    CHECK(allowed(limiter, 4) == 3);
    b.clock.advance(120s);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(3));
    CHECK(allowed(limiter, 4) == 3);
  });
}

// What a fixed window lets through across its border, and the others do not: filled with 100 at t, asked again.
TEMPLATE_TEST_CASE("The log is exact over every window", "[recipes]", on_memory, on_redis) {
  TestType b;
  // t is an odd instant, not a window's start.
  const time_point t = w0 + 31'415'926us;
  b.clock.set(t);
  const auto log = sliding_log(b, 100, 60s);
  CHECK(allowed(log, 100) == 100);
  follow(b, log,
         {{0s, take(), deny(100, 0, 60s, 60s, 60s)},
          {1s, take(), deny(100, 0, 59s, 59s, 59s)},
          {60s - 1us, take(), deny(100, 0, 1us, 1us, 1us)},
          {60s, take(), pass(1, 99, 60s, 60s)}},
         t);
}

TEMPLATE_TEST_CASE("The bucket gives back one by one what it let through at once", "[recipes]", on_memory, on_redis) {
  TestType b;
  const time_point t = w0 + 31'415'926us;
  follow(b, token_bucket(b, 100, 100, 60s),
         {{0s, take(100), pass(100, 0, 600ms, 60s)},
          {0s, take(), deny(100, 0, 600ms, 600ms, 60s)},
          {600ms - 1us, take(), deny(100, 0, 1us, 1us, 59'400'001us)},
          {600ms, take(), pass(100, 0, 600ms, 60s)},
          {1s, take(), deny(100, 0, 200ms, 200ms, 59'600ms)},
          {60s, take(99), pass(100, 0, 600ms, 60s)}},
         t);
}

// That is what a fixed window is: twice its limit in two microseconds. On Redis it is filled earlier, since a key made
// in a window's last microsecond lives 1 ms of the server's own time.
TEMPLATE_TEST_CASE("A fixed window filled at its end begins anew at once", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds end = TestType::origin == ratelimit::source::memory ? 1us : 30s;
  b.clock.set(w0 + 60s - end);
  const auto window = fixed_window(b, 100, 60s);
  CHECK(allowed(window, 100) == 100);
  CHECK(figures(window.check("client", "eu")) == deny(100, 0, end, end, end));
  b.clock.set(w0 + 60s);
  CHECK(figures(window.check("client", "eu")) == pass(1, 99, 60s, 60s));
  CHECK(allowed(window, 100) == 99);
}

TEMPLATE_TEST_CASE("A sliding counter filled at its window's end admits nothing then", "[recipes]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(w0 + 60s - 1us);
  const auto counter = sliding_counter(b, 100, 60s);
  CHECK(allowed(counter, 100) == 100);
  follow(b, counter,
         {{60s - 1us, take(), deny(100, 0, 2us, 2us, 59'400'002us)},
          {60s, take(), deny(100, 0, 1us, 1us, 59'400'001us)},
          {60s + 1us, take(), pass(100, 0, 600ms, 60s)},
          {60s + 1us, take(), deny(100, 0, 600ms, 600ms, 60s)},
          {90s, take(50), deny(51, 49, 1us, 1us, 30s + 1us)},
          {90s, take(49), pass(100, 0, 1us, 88'800'001us)}});
}
