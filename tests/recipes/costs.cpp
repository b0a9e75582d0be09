// Costs that are too large, nothing, or negative.
#include <cstdint>
#include <limits>
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;
using told = std::vector<std::string>;

}  // namespace

TEMPLATE_TEST_CASE("A refused cost takes nothing from a bucket", "[recipes]", on_memory, on_redis) {
  TestType b;
  follow(b, token_bucket(b, 5, 1, 10s),
         {{0s, take(3), pass(3, 2, 10s, 30s)},
          {0s, take(5), deny(3, 2, 30s, 10s, 30s)},
          {0s, take(2), pass(5, 0, 10s, 50s)},
          {0s, take(1'000'000), never(5, 0, 10s, 50s)},
          {10s, take(1), pass(5, 0, 10s, 50s)}});
}

TEST_CASE("A refused cost does not lengthen a bucket's life", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  const auto bucket = token_bucket(b, 5, 1, 10s);
  for (const std::int64_t cost : {3, 5, 2, 1'000'000}) bucket.check("client", "eu", cost);
  CHECK(watch.lifetimes() == told{"30000", "50000"});
  CHECK(b.server.command({"PTTL", "ratelimit:bucket:recipe:{client}:eu"}).number <= 50'000);
}

TEST_CASE("A negative level in Redis counts as an empty bucket", "[recipes]") {
  on_redis b;
  const std::string key = "ratelimit:bucket:recipe:{client}:eu";
  const std::string now = std::to_string(w0.time_since_epoch().count());
  b.server.command(
      {"EVAL", "return redis.call('SET', KEYS[1], struct.pack('<ddd', -3, 0, tonumber(ARGV[1])))", "1", key, now});
  follow(b, token_bucket(b, 5, 1, 10s),
         {{0s, peek(), deny(5, 0, 10s, 10s, 50s)},
          {0s, take(), deny(5, 0, 10s, 10s, 50s)},
          {10s, take(), pass(5, 0, 10s, 50s)}});
  const auto level =
      b.server.command({"EVAL", "return tostring((struct.unpack('<ddd', redis.call('GET', KEYS[1]))))", "1", key});
  CHECK(level.text == "0");
}

TEST_CASE("A negative level in memory counts as an empty bucket", "[recipes]") {
  using ratelimit::algorithm::token_bucket;
  const ratelimit::request what{.algorithm = ratelimit::algorithm_id::token_bucket,
                                .op = ratelimit::operation::take,
                                .key = "k",
                                .numbers = {.limit = 5, .window = 10'000'000, .refill = 1},
                                .cost = 1,
                                .now = 10'000'000};
  token_bucket::state stored{.tokens = -3, .fraction = 0, .last = 0, .seen = true};
  const auto seen = token_bucket::step(what, what.op, stored, *what.now, true).seen;
  CHECK(seen.allowed);
  CHECK(stored.tokens == 0);
}

TEST_CASE("A negative cost is refused before anything is sent", "[recipes]") {
  on_redis b;
  with_each(b, 5, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    CHECK(limiter.check("client", "eu", 2).allowed);
    const auto before = figures(limiter.peek("client", "eu"));
    monitor watch{b.server};
    for (const std::int64_t cost : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                    static_cast<std::int64_t>(std::numeric_limits<std::uint64_t>::max())}) {
      for (const call& what : {take(cost), peek(cost), refund(cost)}) {
        const auto d = make(limiter, what);
        CHECK(figures(d) == never(0, 0, 0us, 0us));
        CHECK(d.from == ratelimit::source::invalid);
        CHECK(d.error == ratelimit::errc::invalid_cost);
        CHECK(d.limit == 5);
        CHECK_FALSE(d.counted());
        CHECK(d.at == w0);
      }
    }
    CHECK(watch.commands().empty());
    CHECK(figures(limiter.peek("client", "eu")) == before);
  });
}

TEMPLATE_TEST_CASE("A cost above the limit never passes, and says so", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 5, 60s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    for (const std::int64_t cost : {std::int64_t{6}, std::numeric_limits<std::int64_t>::max()}) {
      for (const call& what : {take(cost), peek(cost)}) {
        const auto d = make(limiter, what, tag);
        CHECK(figures(d) == never(0, 5, 0us, 0us));
        check_counted(b, d);
      }
    }
    CHECK(b.keys() == 0);
    CHECK(limiter.check(tag, "eu", 5).allowed);
    const auto d = limiter.check(tag, "eu", 6);
    CHECK_FALSE(d.retry_after.has_value());
    CHECK(d.used == 5);
    CHECK(d.remaining == 0);
    CHECK_FALSE(limiter.reset(tag, "eu"));
  });
}

TEMPLATE_TEST_CASE("A cost of 0 is a peek", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 2, 60s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    const std::size_t others = b.keys();
    CHECK(figures(limiter.check("client", "eu", 0)) == untouched(2));
    CHECK(figures(limiter.refund("client", "eu", 0)) == untouched(2));
    CHECK(b.keys() == others);

    CHECK(limiter.check("client", "eu").allowed);
    b.clock.advance(1s);
    const auto standing = limiter.peek("client", "eu");
    CHECK(standing.allowed);
    CHECK(standing.remaining == 1);
    CHECK(figures(limiter.check("client", "eu", 0)) == figures(standing));
    CHECK(limiter.check("client", "eu").allowed);
    const auto exhausted = limiter.check("client", "eu", 0);
    CHECK_FALSE(exhausted.allowed);
    CHECK(exhausted.remaining == 0);
    CHECK(figures(exhausted) == figures(limiter.peek("client", "eu")));
    if constexpr (TestType::origin == ratelimit::source::redis) {
      const std::string key = "ratelimit:" + tag + ":recipe:{client}:eu";
      const auto dies = b.server.command({"PEXPIRETIME", key});
      CHECK_FALSE(limiter.check("client", "eu", 0).allowed);
      CHECK(b.server.command({"PEXPIRETIME", key}) == dies);
      if (tag == "log") CHECK(b.server.command({"ZCARD", key}).number == 2);
    }
    b.clock.set(w0);
  });
}
