// A blocked key: everything is refused until the block ends, in every process.
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "recipes/monitor.hpp"

using namespace joint;

namespace {

on_memory& another(on_memory& b) {
  return b;
}
on_redis another(on_redis& b) {
  return {.clock = b.clock};
}

}  // namespace

TEMPLATE_TEST_CASE("a block refuses until it ends, to the microsecond", "[joint]", on_memory, on_redis) {
  TestType b;
  auto&& c = another(b);
  const auto follow = [&](const auto& limit, const auto& elsewhere) {
    b.clock.set(midnight);
    const auto check_held = [&](const decision& d, std::int64_t used, microseconds left) {
      CHECK_FALSE(d.allowed);
      CHECK(d.from == TestType::origin);
      CHECK(d.used == used);
      CHECK(d.remaining == 0);
      CHECK((d.retry_after == left));
      CHECK((d.reset_after == left));
    };
    CHECK(limit.check("client", "eu").used == 1);
    CHECK_FALSE(limit.block("client", "eu", 10min));
    check_held(limit.check("client", "eu"), 1, 10min);
    check_held(limit.peek("client", "eu"), 1, 10min);
    check_held(elsewhere.check("client", "eu"), 1, 10min);
    CHECK(limit.check("client", "us").allowed);
    CHECK(limit.check("other", "eu").allowed);
    // A cost above the limit is refused for ever all the same.
    CHECK(limit.check("client", "eu", 4).retry_after == std::nullopt);

    // A shorter block changes nothing, a longer one lasts.
    b.clock.set(midnight + 1min);
    CHECK_FALSE(limit.block("client", "eu", 1min));
    check_held(limit.check("client", "eu"), 1, 9min);
    CHECK_FALSE(limit.block("client", "eu", 14min));
    check_held(limit.check("client", "eu"), 1, 14min);
    // A refund gives back, and does not lift it.
    const decision refund = limit.refund("client", "eu", 1);
    CHECK(refund.allowed);
    CHECK(refund.used == 0);
    CHECK(refund.remaining == 0);
    check_held(elsewhere.check("client", "eu"), 0, 14min);

    b.clock.set(midnight + 15min - 1us);
    check_held(limit.check("client", "eu"), 0, 1us);
    b.clock.set(midnight + 15min);
    CHECK(elsewhere.check("client", "eu").used == 1);
    CHECK(limit.check("client", "eu").used == 2);

    CHECK_FALSE(elsewhere.block("client", "eu", 1h));
    check_held(limit.check("client", "eu"), 2, 1h);
    CHECK_FALSE(limit.reset("client", "eu"));
    CHECK(elsewhere.check("client", "eu").used == 1);
  };
  follow(log_of(b, "login", 3, 24h), log_of(c, "login", 3, 24h));
  follow(counter_of(b, "login", 3, 24h), counter_of(c, "login", 3, 24h));
  follow(bucket_of(b, "login", 3, 240h), bucket_of(c, "login", 3, 240h));
  follow(window_of(b, "login", 3, 24h), window_of(c, "login", 3, 24h));
}

// A state tells by 0 that there is no block.
TEMPLATE_TEST_CASE("a block that would end at the time 0 ends a microsecond later", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto follow = [&](const auto& limit) {
    b.clock.set(time_point{-10min});
    CHECK_FALSE(limit.block("client", "eu", 10min));
    const decision d = limit.check("client", "eu");
    CHECK_FALSE(d.allowed);
    CHECK(d.from == TestType::origin);
    CHECK(d.used == 0);
    CHECK(d.remaining == 0);
    CHECK((d.retry_after == 10min + 1us));
    CHECK((d.reset_after == 10min + 1us));
    b.clock.set(time_point{});
    CHECK((limit.check("client", "eu").retry_after == 1us));
    b.clock.set(time_point{1us});
    CHECK(limit.check("client", "eu").used == 1);
  };
  follow(log_of(b, "login", 3, 24h));
  follow(counter_of(b, "login", 3, 24h));
  follow(bucket_of(b, "login", 3, 240h));
  follow(window_of(b, "login", 3, 24h));
}

TEMPLATE_TEST_CASE("with a full quota the longer wait is told", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto limit = window_of(b, "login", 1, 1h);
  CHECK(limit.check("client", "eu").allowed);
  CHECK_FALSE(limit.block("client", "eu", 10min));
  CHECK((limit.check("client", "eu").retry_after == 1h));
  CHECK_FALSE(limit.block("client", "eu", 100min));
  const decision d = limit.check("client", "eu");
  CHECK((d.retry_after == 100min));
  CHECK((d.reset_after == 100min));
  CHECK((d.full_after == 1h));
  b.clock.set(midnight + 100min - 1us);
  CHECK((limit.check("client", "eu").retry_after == 1us));
  b.clock.set(midnight + 100min);
  CHECK(limit.check("client", "eu").allowed);
}

TEST_CASE("a blocked key lives as long as the block or the count, and not longer", "[joint]") {
  on_redis b;
  b.clock.set(midnight);
  recipes::monitor monitor{b.server};
  const auto last = [&] {
    const auto all = monitor.lifetimes();
    return all.empty() ? std::string{"none"} : all.back();
  };
  with_each(b, "login", 3, 1h, {}, [&](const auto& limit) {
    b.server.command({"FLUSHALL"});
    CHECK_FALSE(limit.block("client", "eu", 90min));  // nothing is counted
    CHECK(last() == "5400000");
    CHECK_FALSE(limit.block("client", "eu", 10min));
    CHECK(last() == "5400000");
    CHECK_FALSE(limit.check("client", "eu").allowed);
    CHECK_FALSE(limit.peek("client", "eu").allowed);
    CHECK(last() == "none");
    CHECK(b.keys() == 1);
    CHECK_FALSE(limit.reset("client", "eu"));
    CHECK(b.keys() == 0);

    CHECK_FALSE(limit.block("client", "eu", 1500us));
    CHECK(last() == "2");  // rounded up to a ms
    CHECK_FALSE(limit.reset("client", "eu"));
    CHECK(limit.check("client", "eu").allowed);
    const std::string counted = last();
    CHECK_FALSE(limit.block("client", "eu", 1ms));
    CHECK(last() == counted);
    CHECK_FALSE(limit.block("client", "eu", 240h));
    CHECK(last() == "864000000");
    limit.refund("client", "eu", 1);
    CHECK(last() == "864000000");
  });
}

TEMPLATE_TEST_CASE("one blocked limit refuses a combination, and the others count nothing", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(midnight);
  with_each(b, "login", 9, 24h, {}, [&](const auto& login) {
    const all_of quota{window_of(b, "first", 9, 1h), login, window_of(b, "last", 9, 1h)};
    b.clock.set(midnight);
    CHECK(quota.check("client", "eu").allowed);
    CHECK_FALSE(login.block("client", "eu", 10min));
    const auto d = quota.check("client", "eu");
    CHECK_FALSE(d.allowed);
    CHECK(d.limit_name == "login");
    CHECK((d.retry_after == 10min));
    CHECK(d.remaining == 0);
    CHECK(d.parts[0].allowed);
    CHECK(d.parts[0].used == 1);
    CHECK(d.parts[2].used == 1);
    CHECK(d.parts[1].used == 1);
    CHECK_FALSE(quota.peek("client", "eu").allowed);
    CHECK(quota.refund("client", "eu", 1).parts[1].used == 0);
    b.clock.set(midnight + 10min - 1us);
    CHECK((quota.check("client", "eu").retry_after == 1us));
    b.clock.set(midnight + 10min);
    CHECK(quota.check("client", "eu").allowed);
    CHECK_FALSE(login.block("client", "eu", 10min));
    CHECK_FALSE(quota.reset("client", "eu"));  // lifts it
    CHECK(quota.check("client", "eu").parts[1].used == 1);
    CHECK_FALSE(quota.reset("client", "eu"));
  });
}

TEMPLATE_TEST_CASE("a block's length is 1 us to 10 years", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto limit = window_of(b, "login", 1, 1h);
  CHECK(limit.block("client", "eu", 0us) == errc::invalid_duration);
  CHECK(limit.block("client", "eu", -1us) == errc::invalid_duration);
  CHECK(limit.block("client", "eu", std::chrono::years{10} + 1s) == errc::invalid_duration);
  CHECK(limit.block("client", "eu", std::chrono::hours::max()) == errc::invalid_duration);
  CHECK(limit.block("", "eu", 1h) == errc::invalid_identity);
  CHECK(b.keys() == 0);
  CHECK(limit.block("client", "eu", std::chrono::years{10}) == std::error_code{});
  CHECK((limit.check("client", "eu").retry_after == microseconds{std::chrono::years{10}}));
}
