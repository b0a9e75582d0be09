// Blocks, calls with an id, and refunds that know when the units were taken: the same here and in Redis.
#include <cstdint>
#include <string>

#include "catch.hpp"
#include "stores.hpp"

namespace {

using namespace inprocess;
using ratelimit::call;

// The ends of two processes: two limiters on the same counts.
template <class Backend>
auto log_of_3(Backend& b) {
  return recipes::sliding_log(b, 3, 60s);
}

call with_id(std::string_view id, std::int64_t cost = 1, std::string_view identity = "client") {
  return {.identity = identity, .region = "eu", .cost = cost, .request_id = id};
}

}  // namespace

TEMPLATE_TEST_CASE("A block refuses everything until it ends", "[inprocess]", on_memory, on_redis) {
  TestType b;
  recipes::with_each(b, 3, 60s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    b.clock.set(w0);
    CHECK_FALSE(limiter.block("client", "eu", 10min));
    const auto blocked = limiter.check("client", "eu");
    CHECK(figures(blocked) == deny(0, 0, 10min, 10min, 0s));
    CHECK(blocked.from == TestType::origin);
    CHECK(blocked.at == w0);
    CHECK(blocked.error == std::error_code{});
    CHECK(figures(limiter.peek("client", "eu")) == deny(0, 0, 10min, 10min, 0s));
    CHECK(limiter.check("client", "us").allowed);
    CHECK(limiter.check("other", "eu").allowed);
    b.clock.advance(10min - 1us);
    CHECK(figures(limiter.check("client", "eu")) == deny(0, 0, 1us, 1us, 0s));
    b.clock.advance(1us);
    CHECK(limiter.check("client", "eu").used == 1);
    for (const char* const region : {"eu", "us"}) CHECK_FALSE(limiter.reset("client", region));
    CHECK_FALSE(limiter.reset("other", "eu"));
  });
}

TEMPLATE_TEST_CASE("The block that ends later stays, and a reset lifts it", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = log_of_3(b);
  CHECK(limiter.check("client", "eu", 2).used == 2);
  CHECK_FALSE(limiter.block("client", "eu", 20s));
  CHECK_FALSE(limiter.block("client", "eu", 10s));
  CHECK(figures(limiter.check("client", "eu")) == deny(2, 0, 20s, 20s, 60s));
  CHECK_FALSE(limiter.block("client", "eu", 30s));
  CHECK(figures(limiter.check("client", "eu")) == deny(2, 0, 30s, 30s, 60s));
  // Longer than the window: the quota is free again, the block is not over.
  CHECK_FALSE(limiter.block("client", "eu", 100s));
  b.clock.advance(60s);
  CHECK(figures(limiter.check("client", "eu")) == deny(0, 0, 40s, 40s, 0s));
  CHECK_FALSE(limiter.reset("client", "eu"));
  CHECK(figures(limiter.check("client", "eu")) == pass(1, 2, 60s, 60s));
}

TEMPLATE_TEST_CASE("What was used before a block is used after it", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = log_of_3(b);
  CHECK(limiter.check("client", "eu", 3).allowed);
  CHECK_FALSE(limiter.block("client", "eu", 10s));
  // The quota's own wait is the longer one.
  CHECK(figures(limiter.check("client", "eu")) == deny(3, 0, 60s, 60s, 60s));
  CHECK(figures(limiter.refund("client", "eu", 1)) == pass(2, 0, 10s, 60s));
  CHECK(figures(limiter.check("client", "eu")) == deny(2, 0, 10s, 10s, 60s));
  b.clock.advance(10s);
  CHECK(figures(limiter.check("client", "eu")) == pass(3, 0, 50s, 60s));
}

TEST_CASE("A block holds in every process", "[inprocess]") {
  on_redis b;
  CHECK_FALSE(log_of_3(b).block("client", "eu", 10min));
  ratelimit::redis other{b.server.url()};
  const ratelimit::sliding_log there{
      other, {.name = "recipe", .limit = 3, .window = 60s, .on_failure = fail::closed}, b.clock};
  CHECK(figures(there.check("client", "eu")) == deny(0, 0, 10min, 10min, 0s));
  CHECK_FALSE(there.reset("client", "eu"));
  CHECK(log_of_3(b).check("client", "eu").allowed);
}

TEMPLATE_TEST_CASE("A block's length, identity and region are checked", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = log_of_3(b);
  CHECK(limiter.block("client", "eu", 0s) == errc::invalid_duration);
  CHECK(limiter.block("client", "eu", -1us) == errc::invalid_duration);
  CHECK(limiter.block("client", "eu", std::chrono::years{10} + 1us) == errc::invalid_duration);
  CHECK(limiter.block("", "eu", 1s) == errc::invalid_identity);
  CHECK(limiter.block("client", std::string(513, 'r'), 1s) == errc::invalid_region);
  CHECK(b.keys() == 0);
  CHECK_FALSE(limiter.block("client", "eu", std::chrono::years{10}));
  CHECK(limiter.check("client", "eu").retry_after == std::chrono::years{10});
  CHECK_FALSE(limiter.block("other", "eu", 1us));
}

TEST_CASE("Without the store a block and a reset say why they failed", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  const ratelimit::sliding_log limiter{store, {.name = "recipe", .limit = 3, .window = 60s, .on_failure = fail::open}};
  CHECK(limiter.block("client", "eu", 1s) == errc::timeout);
  CHECK(limiter.reset("client", "eu") == errc::timeout);
}

TEMPLATE_TEST_CASE("A call with an id is counted once", "[inprocess]", on_memory, on_redis) {
  TestType b;
  recipes::with_each(b, 3, 60s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    b.clock.set(w0);
    const std::string who = "client " + tag;
    CHECK(limiter.check(with_id("a", 2, who)).used == 2);
    const auto again = limiter.check(with_id("a", 2, who));
    CHECK(again.allowed);
    CHECK(again.used == 2);
    CHECK(again.remaining == 1);
    CHECK(again.from == TestType::origin);
    CHECK(limiter.check(with_id("b", 1, who)).used == 3);
    // The quota is exhausted: new calls are refused, those that were admitted are not.
    CHECK_FALSE(limiter.check(with_id("c", 1, who)).allowed);
    CHECK(limiter.check(with_id("a", 2, who)).allowed);
    CHECK(limiter.check(with_id("b", 1, who)).allowed);
    CHECK_FALSE(limiter.check(who, "eu").allowed);
    CHECK(limiter.peek(who, "eu").used == 3);
    // Another identity's id of the same name is another call.
    CHECK(limiter.check(with_id("a", 1, "another " + tag)).used == 1);
  });
}

TEMPLATE_TEST_CASE("An id is remembered for one window, and a refused one not at all", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  const auto limiter = log_of_3(b);
  CHECK(figures(limiter.check(with_id("a", 3))) == pass(3, 0, 60s, 60s));
  CHECK(figures(limiter.check(with_id("b"))) == deny(3, 0, 60s, 60s, 60s));
  b.clock.advance(60s - 1us);
  CHECK(figures(limiter.check(with_id("a", 3))) == pass(3, 0, 1us, 1us));
  CHECK(figures(limiter.check(with_id("b"))) == deny(3, 0, 1us, 1us, 1us));
  b.clock.advance(1us);
  CHECK(figures(limiter.check(with_id("b"))) == pass(1, 2, 60s, 60s));
  CHECK(figures(limiter.check(with_id("a", 2))) == pass(3, 0, 60s, 60s));
  CHECK(figures(limiter.check(with_id("a", 2))) == pass(3, 0, 60s, 60s));
}

TEST_CASE("An id holds in every process", "[inprocess]") {
  on_redis b;
  CHECK(log_of_3(b).check(with_id("a")).used == 1);
  ratelimit::redis other{b.server.url()};
  const ratelimit::sliding_log there{
      other, {.name = "recipe", .limit = 3, .window = 60s, .on_failure = fail::closed}, b.clock};
  CHECK(figures(there.check(with_id("a"))) == pass(1, 2, 60s, 60s));
  CHECK(figures(there.check(with_id("b"))) == pass(2, 1, 60s, 60s));
}

TEMPLATE_TEST_CASE("Ids of any bytes are kept apart, up to 512 of them", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = recipes::sliding_log(b, 100, 60s);
  std::int64_t used = 0;
  for (const std::string& id :
       {std::string{"a"}, std::string{"a:"}, std::string{"a%"}, std::string{"a%25"}, std::string{"}"},
        std::string("a\0", 2), std::string(511, 'a'), std::string(512, 'a')}) {
    CHECK(limiter.check(with_id(id)).used == ++used);
    CHECK(limiter.check(with_id(id)).used == used);
  }
  const std::string too_long(513, 'a');
  const auto d = limiter.check(with_id(too_long));
  CHECK_FALSE(d.allowed);
  CHECK(d.error == errc::invalid_request_id);
}

TEST_CASE("An id in an outage is counted once too", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  const ratelimit::sliding_log limiter{
      store, {.name = "recipe", .limit = 3, .window = 60s, .on_failure = fail::local}, ratelimit::manual_clock{w0}};
  CHECK(limiter.check(with_id("a")).used == 1);
  CHECK(limiter.check(with_id("a")).used == 1);
  CHECK(limiter.check(with_id("b")).used == 2);
}

TEMPLATE_TEST_CASE("A refund with a time gives nothing back into a later window", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto window = recipes::fixed_window(b, 10, 60s);
  const auto first = window.check("client", "eu", 6);
  CHECK(figures(window.refund("client", "eu", 2, first.at)) == pass(4, 6, 60s, 60s));
  b.clock.advance(60s);
  const auto later = window.check("client", "eu", 5);
  CHECK(figures(window.refund("client", "eu", 2, first.at)) == pass(5, 5, 60s, 60s));
  CHECK(figures(window.refund("client", "eu", 2, later.at)) == pass(3, 7, 60s, 60s));
  // Without a time it is taken to be of now.
  CHECK(figures(window.refund("client", "eu", 2)) == pass(1, 9, 60s, 60s));
  CHECK(figures(window.refund("client", "eu", 100, later.at)) == untouched(10));
}

TEMPLATE_TEST_CASE("A counter's refund goes to the window that took the units", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto counter = recipes::sliding_counter(b, 10, 60s);
  const auto first = counter.check("client", "eu", 8);
  b.clock.advance(90s);  // the window before weighs a half
  const auto second = counter.check("client", "eu", 3);
  CHECK(second.used == 7);
  CHECK(counter.refund("client", "eu", 4, first.at).used == 5);   // 3 + floor(4 / 2)
  CHECK(counter.refund("client", "eu", 1, second.at).used == 4);  // 2 + floor(4 / 2)
  CHECK(counter.refund("client", "eu", 100, first.at).used == 2);
  CHECK(counter.refund("client", "eu", 1, first.at).used == 2);
  CHECK(counter.refund("client", "eu", 100, second.at).used == 0);
}

TEMPLATE_TEST_CASE("A refund with a time to a log or a bucket gives back what is in force", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  const auto log = recipes::sliding_log(b, 10, 60s);
  const auto bucket = recipes::token_bucket(b, 10, 1, 10s);
  const auto taken = log.check("client", "eu", 4);
  CHECK(bucket.check("client", "eu", 4).used == 4);
  b.clock.advance(10s);
  CHECK(figures(log.refund("client", "eu", 1, taken.at)) == pass(3, 7, 50s, 50s));
  CHECK(figures(bucket.refund("client", "eu", 1, taken.at)) == pass(2, 8, 10s, 20s));
  CHECK(figures(bucket.refund("client", "eu", 100, taken.at)) == untouched(10));
  CHECK(figures(log.refund("client", "eu", 100, taken.at)) == untouched(10));
}

TEMPLATE_TEST_CASE("A block refuses a call whose id was counted before", "[inprocess]", on_memory, on_redis) {
  TestType b;
  recipes::with_each(b, 1, 60s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    b.clock.set(w0);
    CHECK(limiter.check(with_id("a")).allowed);
    CHECK_FALSE(limiter.peek(with_id("a")).allowed);  // of a call without that id
    CHECK(limiter.check(with_id("a")).used == 1);
    CHECK_FALSE(limiter.block("client", "eu", 30s));
    const auto blocked = limiter.check(with_id("a"));
    CHECK_FALSE(blocked.allowed);
    CHECK(blocked.used == 1);
    b.clock.advance(30s);
    CHECK(limiter.check(with_id("a")).allowed);
    CHECK_FALSE(limiter.reset("client", "eu"));
  });
}

TEMPLATE_TEST_CASE("A block leaves an unused bucket full, whatever its capacity becomes", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  const auto bucket = [&](std::int64_t capacity) {
    return ratelimit::token_bucket{b.store,
                                   {.name = "block",
                                    .capacity = capacity,
                                    .refill = 1,
                                    .per = 1h,
                                    .on_failure = fail::closed,
                                    .deadline = recipes::patience},
                                   b.clock};
  };
  CHECK_FALSE(bucket(2).block("client", "eu", 10min));
  b.clock.advance(10min);
  CHECK(figures(bucket(2).peek("client", "eu")) == untouched(2));
  CHECK(figures(bucket(10).peek("client", "eu")) == untouched(10));
}
