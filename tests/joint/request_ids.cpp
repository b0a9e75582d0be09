// Calls with an id: counted once, whoever repeats them.
#include <chrono>
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "recipes/monitor.hpp"

using namespace joint;

namespace {

call with_id(std::string_view id, std::int64_t cost = 1) {
  return {.identity = "client", .region = "eu", .cost = cost, .request_id = id};
}

// The same backend, as another process sees it.
on_memory& another(on_memory& b) {
  return b;
}
on_redis another(on_redis& b) {
  return {.clock = b.clock};
}

std::int64_t used(const decision& d) {
  return d.used;
}

}  // namespace

TEMPLATE_TEST_CASE("the same id again is admitted and not counted", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  with_each(b, "ids", 3, 24h, {}, [&](const auto& limit) {
    for (int i = 0; i < 3; ++i) {
      const decision d = limit.check(with_id("r1", 2));
      CHECK(d.allowed);
      CHECK(d.repeated == (i > 0));
      CHECK(d.from == TestType::origin);
      CHECK(d.used == 2);
      CHECK(d.remaining == 1);
    }
    CHECK(used(limit.check(with_id("r2"))) == 3);
    CHECK(limit.check(with_id("r1", 2)).allowed);  // also while the quota is full
    CHECK(limit.check(with_id("r2")).allowed);
    // Other ids are other calls: near ones, and the same one of another key.
    for (const std::string_view id : {"r", "r11", "R1", "r1 ", "r1:", "r%31", "{r1}"})
      CHECK_FALSE(limit.check(with_id(id)).allowed);
    CHECK_FALSE(limit.check("client", "eu").allowed);
    CHECK(used(limit.check({.identity = "client", .region = "us", .request_id = "r1"})) == 1);
    CHECK(used(limit.check({.identity = "other", .region = "eu", .request_id = "r1"})) == 1);
    CHECK(used(limit.peek(with_id("r3"))) == 3);
  });
}

TEMPLATE_TEST_CASE("only a call that looks at its id repeats it", "[joint]", on_memory, on_redis) {
  TestType b;
  const all_of quota{window_of(b, "five", 5, 24h), window_of(b, "nine", 9, 24h),
                     window_of(b, "three", 3, 24h, {.shadow = true})};
  const auto repeated = [](const auto& d) {
    return std::vector<bool>{d.repeated, d.parts[0].repeated, d.parts[1].repeated, d.parts[2].repeated};
  };
  const std::vector<bool> none(4, false);
  CHECK(repeated(quota.check(with_id("r1", 4))) == none);
  CHECK(repeated(quota.check(with_id("r1"))) == std::vector<bool>(4, true));
  CHECK(repeated(quota.check(with_id("r1", 4))) == std::vector<bool>{true, true, true, false});  // never three
  CHECK(repeated(quota.peek(with_id("r1"))) == none);
  CHECK(repeated(quota.check(with_id("r1", 0))) == none);
  CHECK(repeated(quota.check(with_id("r1", 6))) == none);  // never five
}

TEMPLATE_TEST_CASE("a refused call is decided anew under its id", "[joint]", on_memory, on_redis) {
  TestType b;
  with_each(b, "ids", 3, 24h, {}, [&](const auto& limit) {
    b.clock.set(midnight);
    CHECK(limit.check("client", "eu", 3).allowed);
    CHECK_FALSE(limit.check(with_id("r1")).allowed);
    CHECK_FALSE(limit.check(with_id("r1")).allowed);
    b.clock.set(midnight + 48h);
    CHECK(used(limit.check(with_id("r1"))) == 1);
    CHECK(used(limit.check(with_id("r1"))) == 1);
    CHECK(used(limit.check(with_id("r2"))) == 2);
  });
}

TEMPLATE_TEST_CASE("an id is remembered for one window, to the microsecond", "[joint]", on_memory, on_redis) {
  TestType b;
  with_each(b, "ids", 3, 24h, {}, [&](const auto& limit) {
    b.clock.set(midnight + 1h);
    CHECK(limit.check(with_id("r1")).allowed);
    b.clock.set(midnight + 25h - 1us);
    const std::int64_t before = used(limit.peek("client", "eu"));
    CHECK(used(limit.check(with_id("r1"))) == before);
    b.clock.set(midnight + 25h);
    const std::int64_t then = used(limit.peek("client", "eu"));
    CHECK(used(limit.check(with_id("r1"))) == then + 1);
  });
}

TEST_CASE("the key of an id lives for one window, and the key of a refused call's is never made", "[joint]") {
  on_redis b;
  b.clock.set(midnight);
  with_each(b, "ids", 3, 24h, {}, [&](const auto& limit) {
    b.server.command({"FLUSHALL"});
    recipes::monitor monitor{b.server};
    limit.check(with_id("r1"));
    const auto lifetimes = monitor.lifetimes();
    REQUIRE_FALSE(lifetimes.empty());
    CHECK(lifetimes.back() == "86400000");
    CHECK(b.keys() == 2);
    limit.check(with_id("r1"));
    limit.check(with_id("r2", 3));
    limit.check(with_id("r3", 4));
    limit.peek(with_id("r4"));
    CHECK(monitor.lifetimes().empty());
    CHECK(b.keys() == 2);
  });
}

TEMPLATE_TEST_CASE("an id is known to every process", "[joint]", on_memory, on_redis) {
  TestType b;
  auto&& c = another(b);
  CHECK(log_of(b, "ids", 3, 24h).check(with_id("r1")).used == 1);
  CHECK(log_of(c, "ids", 3, 24h).check(with_id("r1")).used == 1);
  const auto make = [](auto& there) { return all_of{log_of(there, "a", 3, 24h), window_of(there, "b", 2, 24h)}; };
  CHECK(make(b).check(with_id("r1")).parts[0].used == 1);
  CHECK(make(c).check(with_id("r1")).parts[0].used == 1);
  CHECK(make(c).check(with_id("r2")).parts[0].used == 2);
  CHECK(make(b).check(with_id("r2")).parts[0].used == 2);
}

TEMPLATE_TEST_CASE("a combination counts an id once in all its limits, or in none", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const all_of quota{log_of(b, "log", 9, 24h), counter_of(b, "counter", 4, 48h), bucket_of(b, "bucket", 9, 24h),
                     window_of(b, "window", 9, 24h)};
  const auto used_by_all = [](const auto& d) {
    std::vector<std::int64_t> all;
    for (const decision& part : d.parts) all.push_back(part.used);
    return all;
  };
  using counts = std::vector<std::int64_t>;
  CHECK(used_by_all(quota.check(with_id("r1", 3))) == counts{3, 3, 3, 3});
  const auto again = quota.check(with_id("r1", 3));  // more than the counter has left
  CHECK(again.allowed);
  CHECK(used_by_all(again) == counts{3, 3, 3, 3});
  for (const decision& part : again.parts) {
    CHECK(part.allowed);
    CHECK(part.retry_after == std::nullopt);
  }
  for (int i = 0; i < 2; ++i) {
    const auto refused = quota.check(with_id("r2", 2));
    CHECK_FALSE(refused.allowed);
    CHECK(refused.limit_name == "counter");
    CHECK(used_by_all(refused) == counts{3, 3, 3, 3});
  }
  CHECK(used_by_all(quota.refund("client", "eu", 1)) == counts{2, 2, 2, 2});
  CHECK(used_by_all(quota.check(with_id("r2", 2))) == counts{4, 4, 4, 4});
  CHECK(used_by_all(quota.check(with_id("r2", 2))) == counts{4, 4, 4, 4});
  // Remembered for the first limit's window.
  b.clock.set(midnight + 24h - 1us);
  CHECK(quota.check(with_id("r1", 3)).allowed);
  b.clock.set(midnight + 24h);
  CHECK_FALSE(quota.check(with_id("r1", 3)).allowed);
}

TEMPLATE_TEST_CASE("what one limit counted under an id is no call of a combination's", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto log = log_of(b, "log", 9, 24h);
  const auto window = window_of(b, "window", 9, 24h);
  const auto bucket = bucket_of(b, "bucket", 9, 24h);
  CHECK(log.check(with_id("r1")).used == 1);
  const all_of two{log, window};
  CHECK(two.check(with_id("r1")).parts[0].used == 2);
  CHECK(two.check(with_id("r1")).parts[1].used == 1);
  const all_of others{log, bucket};
  CHECK(others.check(with_id("r1")).parts[0].used == 3);
  CHECK(others.check(with_id("r1")).parts[1].used == 1);
  CHECK(all_of{log, window}.check(with_id("r1")).parts[0].used == 3);  // the same combination, made again
  CHECK(log.check(with_id("r1")).used == 3);
}

TEMPLATE_TEST_CASE("a call that only shadow limits refused is not remembered: nobody counted it", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(midnight);
  const all_of tried{window_of(b, "a", 1, 24h, {.shadow = true}), window_of(b, "b", 1, 48h, {.shadow = true})};
  CHECK_FALSE(tried.check("client", "eu").would_deny);
  CHECK(tried.check(with_id("r1")).would_deny);
  CHECK(tried.check(with_id("r1")).would_deny);
  CHECK(all_of{window_of(b, "a", 1, 24h, {.shadow = true})}.check(with_id("r1")).would_deny);
  CHECK(all_of{window_of(b, "a", 1, 24h, {.shadow = true})}.check(with_id("r1")).would_deny);
}

TEMPLATE_TEST_CASE("a batch knows ids too", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto log = log_of(b, "log", 9, 24h);
  const all_of quota{log, window_of(b, "window", 9, 24h)};
  const std::vector<call> calls{with_id("r1"), with_id("r2"), with_id("r1"), with_id(""), with_id("r2")};
  std::vector<std::int64_t> counts;
  for (const decision& d : log.check_many(calls)) counts.push_back(d.used);
  for (const auto& d : quota.check_many(calls)) counts.push_back(d.parts[1].used);
  CHECK(counts == std::vector<std::int64_t>{1, 2, 2, 3, 3, 1, 2, 2, 3, 3});
}

TEMPLATE_TEST_CASE("an id of any bytes, up to 512 of them", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto limit = log_of(b, "ids", 100, 24h);
  const std::vector<std::string> ids{std::string(512, '%'),
                                     std::string(512, '\0'),
                                     std::string(511, '\0'),
                                     "\r\n",
                                     "}",
                                     "{",
                                     ":",
                                     "::",
                                     "%3A",
                                     "\xff"};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(limit.check(with_id(ids[i])).used == static_cast<std::int64_t>(i) + 1);
    CHECK(limit.check(with_id(ids[i])).used == static_cast<std::int64_t>(i) + 1);
  }
  const std::string long_id(513, 'x');
  const decision d = limit.check(with_id(long_id));
  CHECK_FALSE(d.allowed);
  CHECK(d.error == errc::invalid_request_id);
  CHECK((all_of{limit}.check(with_id(long_id)).error == errc::invalid_request_id));
}

TEMPLATE_TEST_CASE("an id belongs to its identity and region, whatever the limit counts by", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  for (const scope by : {scope::identity_and_region, scope::identity, scope::region, scope::everyone}) {
    const auto limit = log_of(b, "ids", 9, 24h, {.by = by});
    const all_of quota{limit, window_of(b, "own", 9, 24h)};
    const auto check = [&](std::string_view identity, std::string_view region, std::int64_t own) {
      for (int i = 0; i < 2; ++i) {
        const auto d = quota.check({.identity = identity, .region = region, .request_id = "1"});
        CHECK(d.allowed);
        CHECK(d.parts[1].used == own);
      }
    };
    check("a", "eu", 1);
    check("b", "eu", 1);
    check("a", "us", 1);
    for (const auto& [identity, region] :
         {std::pair{"a", "eu"}, std::pair{"b", "eu"}, std::pair{"a", "us"}, std::pair{"b", "us"}})
      CHECK_FALSE(quota.reset(identity, region));
    b.clock.advance(240h);
  }
  const std::string longer(513, 'x');
  const auto everyone = log_of(b, "all", 9, 24h, {.by = scope::everyone});
  CHECK(everyone.check({.identity = longer, .region = longer}).used == 1);
  CHECK(everyone.check({.identity = longer, .request_id = "1"}).error == errc::invalid_identity);
  CHECK(everyone.check({.identity = "a", .region = longer, .request_id = "1"}).error == errc::invalid_region);
}
