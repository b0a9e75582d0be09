// refund, reset and peek.
#include <limits>
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;
using told = std::vector<std::string>;

}  // namespace

TEMPLATE_TEST_CASE("A log gives back the newest units first", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_log(b, 10, 60s),
         {{0s, take(3), pass(3, 7, 60s, 60s)},
          {1s, take(2), pass(5, 5, 59s, 60s)},
          {2s, take(1), pass(6, 4, 58s, 60s)},
          {3s, refund(2), pass(4, 6, 57s, 58s)},
          {4s, refund(2), pass(2, 8, 56s, 56s)},
          {5s, take(8), pass(10, 0, 55s, 60s)},
          {5s, take(3), deny(10, 0, 60s, 55s, 60s)},
          {6s, refund(11), untouched(10)},
          {6s, take(10), pass(10, 0, 60s, 60s)}});
}

TEMPLATE_TEST_CASE("A counter gives back the current window's units alone", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, sliding_counter(b, 10, 60s),
         {{-60s, take(6), pass(6, 4, 60s + 1us, 110s + 1us)},
          {20s, take(5), pass(9, 1, 1us, 88s + 1us)},
          {20s, refund(2), pass(7, 3, 1us, 80'000'001us)},
          {20s, refund(100), pass(4, 6, 1us, 30s + 1us)},
          {20s, refund(1), pass(4, 6, 1us, 30s + 1us)},
          {60s, peek(), untouched(10)}});
  follow(b, sliding_counter(b, 10, 60s, "first window"),
         {{0s, take(6), pass(6, 4, 60s + 1us, 110s + 1us)}, {0s, refund(6), untouched(10)}});
}

TEMPLATE_TEST_CASE("A bucket never holds more than its capacity", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 10, 10, 600s),
         {{0s, take(5), pass(5, 5, 60s, 300s)},
          {30s, refund(2), pass(3, 7, 30s, 150s)},
          {60s, refund(1), pass(1, 9, 60s, 60s)},
          {90s, refund(100), untouched(10)},
          {90s, take(10), pass(10, 0, 60s, 600s)},
          {90s, take(), deny(10, 0, 60s, 60s, 600s)}});
}

TEMPLATE_TEST_CASE("A fixed window gives nothing to a later one", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, fixed_window(b, 10, 60s),
         {{0s, take(5), pass(5, 5, 60s, 60s)},
          {10s, refund(2), pass(3, 7, 50s, 50s)},
          {60s, refund(3), untouched(10)},
          {60s, take(4), pass(4, 6, 60s, 60s)},
          {61s, refund(100), untouched(10)},
          {61s, take(10), pass(10, 0, 59s, 59s)},
          {61s, take(), deny(10, 0, 59s, 59s, 59s)}});
}

// Told when the units were taken, a refund gives nothing back out of what later calls took.
TEMPLATE_TEST_CASE("Units whose window is over are not given back", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto refund_at = [&](const auto& limiter, microseconds at, std::int64_t cost, microseconds taken) {
    b.clock.set(w0 + at);
    const auto d = limiter.refund("client", "eu", cost, w0 + taken);
    check_counted(b, d);
    return figures(d);
  };
  const auto window = fixed_window(b, 10, 60s);
  follow(b, window, {{59s, take(3), pass(3, 7, 1s, 1s)}, {61s, take(4), pass(4, 6, 59s, 59s)}});
  CHECK(refund_at(window, 62s, 3, 59s) == pass(4, 6, 58s, 58s));
  CHECK(refund_at(window, 62s, 3, 61s) == pass(1, 9, 58s, 58s));

  const auto counter = sliding_counter(b, 10, 60s);
  follow(b, counter, {{-1s, take(6), pass(6, 4, 1s + 1us, 51s + 1us)}, {20s, take(2), pass(6, 4, 1us, 70s + 1us)}});
  CHECK(refund_at(counter, 20s, 3, -1s) == pass(4, 6, 1us, 70s + 1us));
  CHECK(refund_at(counter, 20s, 3, -61s) == pass(4, 6, 1us, 70s + 1us));
  CHECK(refund_at(counter, 20s, 3, 20s) == pass(2, 8, 1us, 20s + 1us));

  const auto log = sliding_log(b, 10, 60s);
  follow(b, log, {{0s, take(3), pass(3, 7, 60s, 60s)}, {50s, take(2), pass(5, 5, 10s, 60s)}});
  CHECK(refund_at(log, 60s, 3, 0s) == pass(2, 8, 50s, 50s));
  CHECK(refund_at(log, 60s, 1, 50s) == pass(1, 9, 50s, 50s));
  CHECK(refund_at(log, 110s - 1us, 1, 50s) == untouched(10));

  const auto bucket = token_bucket(b, 10, 10, 600s);
  follow(b, bucket, {{0s, take(5), pass(5, 5, 60s, 300s)}});
  CHECK(refund_at(bucket, 60s, 2, 0s) == pass(2, 8, 60s, 120s));
  CHECK(refund_at(bucket, 60s, 5, 0s) == untouched(10));
}

TEMPLATE_TEST_CASE("A refund makes no key, and leaves none that is empty", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 10, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    for (const std::int64_t cost : {std::int64_t{1}, std::int64_t{11}, std::numeric_limits<std::int64_t>::max()}) {
      const auto unseen = limiter.refund("client", "eu", cost);
      CHECK(figures(unseen) == untouched(10));
      check_counted(b, unseen);
      CHECK(b.keys() == 0);
      CHECK(limiter.check("client", "eu", 7).allowed);
      CHECK(limiter.refund("client", "eu", 7).used == 0);
      CHECK(b.keys() == 0);
    }
  });
}

// What is left lives as long as it matters.
TEST_CASE("A refund shortens a key's life with its state", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto lifetimes_of = [&](const auto& limiter) {
    b.clock.set(w0);
    limiter.check("client", {}, 3);
    b.clock.advance(12s);
    limiter.check("client", {}, 2);
    b.clock.advance(12s);
    limiter.refund("client", {}, 3);
    return watch.lifetimes();
  };
  CHECK(lifetimes_of(sliding_log(b, 5, 60s)) == told{"60000", "60000", "36000"});
  CHECK(lifetimes_of(sliding_counter(b, 5, 60s)) == told{"120000", "108000", "96000"});
  CHECK(lifetimes_of(token_bucket(b, 5, 5, 60s)) == told{"36000", "48000"});  // full, and gone
  CHECK(lifetimes_of(fixed_window(b, 5, 60s)) == told{"60000", "48000", "36000"});
}

TEMPLATE_TEST_CASE("A reset forgets one key", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 2, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    CHECK(limiter.reset("client", "eu") == std::error_code{});  // nothing there
    CHECK(allowed(limiter, 3, "client", "eu") == 2);
    CHECK(allowed(limiter, 3, "client", "us") == 2);
    CHECK(limiter.reset("client", "eu") == std::error_code{});
    CHECK(b.keys() == 1);
    CHECK(figures(limiter.peek("client", "eu")) == untouched(2));
    CHECK(limiter.peek("client", "us").used == 2);
    CHECK(limiter.reset("client", "us") == std::error_code{});
    CHECK(b.keys() == 0);
    CHECK(limiter.reset("", "eu") == ratelimit::errc::invalid_identity);
    CHECK(limiter.reset(std::string(513, 'x'), "eu") == ratelimit::errc::invalid_identity);
    CHECK(limiter.reset("client", std::string(513, 'x')) == ratelimit::errc::invalid_region);
  });
}

// A peek is what check would answer, before it is made.
TEMPLATE_TEST_CASE("A peek tells what check will answer", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 5, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    for (const std::int64_t cost : {2, 5, 2, 1, 1, 6, 2}) {
      const auto told_before = limiter.peek("client", "eu", cost);
      const auto used_before = limiter.peek("client", "eu", 0).used;
      for (int i = 0; i < 10; ++i) CHECK(figures(limiter.peek("client", "eu", cost)) == figures(told_before));
      const auto d = limiter.check("client", "eu", cost);
      CHECK(d.allowed == told_before.allowed);
      CHECK(d.retry_after == told_before.retry_after);
      CHECK(told_before.used == used_before);
      CHECK(d.used == used_before + (d.allowed ? cost : 0));
      check_counted(b, told_before);
    }
  });
}
