// A call that names the ceiling of its customer: the state stays valid when that changes.
#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"

using namespace joint;

namespace {

template <class Limit>
decision at_tier(const Limit& limit, std::int64_t ceiling, std::int64_t cost = 1) {
  return limit.check({.identity = "client", .region = "eu", .cost = cost, .limit = ceiling});
}

}  // namespace

TEMPLATE_TEST_CASE("a customer who is upgraded or downgraded keeps what was used", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto follow = [&](const auto& limit) {
    const auto check = [&](const decision& d, bool allowed, std::int64_t ceiling, std::int64_t used) {
      INFO("limit " << ceiling);
      CHECK(d.allowed == allowed);
      CHECK(d.from == TestType::origin);
      CHECK(d.limit == ceiling);
      CHECK(d.used == used);
      CHECK(d.remaining == std::max<std::int64_t>(ceiling - used, 0));
    };
    check(limit.check("client", "eu", 5), true, 10, 5);
    check(at_tier(limit, 5), false, 5, 5);
    check(at_tier(limit, 3), false, 3, 5);
    CHECK((at_tier(limit, 3).retry_after.has_value()));
    check(at_tier(limit, 6), true, 6, 6);
    check(at_tier(limit, 1000, 994), true, 1000, 1000);
    check(at_tier(limit, 1000), false, 1000, 1000);
    check(limit.check("client", "eu"), false, 10, 1000);
    check(limit.peek({.identity = "client", .region = "eu", .limit = 2000}), true, 2000, 1000);
    check(at_tier(limit, (std::int64_t{1} << 53) - 1), true, (std::int64_t{1} << 53) - 1, 1001);
  };
  follow(log_of(b, "tier", 10, 24h));
  follow(counter_of(b, "tier", 10, 24h));
  follow(window_of(b, "tier", 10, 24h));
}

// A bucket's state is its level: the tokens in it stay, and a smaller one overflows.
TEMPLATE_TEST_CASE("a bucket that is exchanged for a larger or smaller one keeps its tokens", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto limit = bucket_of(b, "tier", 10, 24h);
  const auto check = [&](const decision& d, bool allowed, std::int64_t ceiling, std::int64_t used) {
    INFO("capacity " << ceiling);
    CHECK(d.allowed == allowed);
    CHECK(d.limit == ceiling);
    CHECK(d.used == used);
    CHECK(d.remaining == ceiling - used);
  };
  check(limit.check("client", "eu", 5), true, 10, 5);  // 5 tokens left
  check(limit.peek({.identity = "client", .region = "eu", .limit = 20}), true, 20, 15);
  check(at_tier(limit, 20), true, 20, 16);      // 4 left
  check(at_tier(limit, 3, 2), true, 3, 2);      // 1 left, the fourth is lost
  check(at_tier(limit, 20, 2), false, 20, 19);  // 1 left
  check(limit.check("client", "eu"), true, 10, 10);
}

TEMPLATE_TEST_CASE("a ceiling out of range is a malformed call", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto limit = window_of(b, "tier", 10, 24h);
  for (const std::int64_t ceiling : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 53}) {
    const decision d = at_tier(limit, ceiling);
    CHECK_FALSE(d.allowed);
    CHECK(d.from == source::invalid);
    CHECK(d.error == errc::invalid_limit);
  }
  CHECK(b.keys() == 0);
}

TEMPLATE_TEST_CASE("a call's ceiling goes before its region's", "[joint]", on_memory, on_redis) {
  TestType b;
  const fixed_window limit{b.store,
                           {.name = "tier",
                            .limit = 10,
                            .window = 24h,
                            .on_failure = fail::closed,
                            .per_region = {{"eu", 3}},
                            .deadline = patience},
                           b.clock};
  CHECK(limit.check("client", "us").limit == 10);
  CHECK(limit.check("client", "eu").limit == 3);
  CHECK(at_tier(limit, 7).limit == 7);
  CHECK(at_tier(limit, 7).used == 3);
}
