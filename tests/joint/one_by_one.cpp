// Limits whose keys cannot be decided in one step: asked one after the other, with exact refunds.
#include <optional>
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "joint/stores.hpp"

using namespace joint;

namespace {

// A backend whose store keeps its keys apart.
template <class Inner>
struct kept_apart {
  Inner inner;
  apart<decltype(Inner::store)> store{inner.store};
  manual_clock clock = inner.clock;
};

// The same whose clock is the store's own, which moves between requests.
struct with_own_clock {
  memory inner{};
  apart<memory> store{inner};
  server_clock clock{};
};

using enum operation;

template <class Store>
std::vector<std::string> asked(Store& store) {
  std::vector<std::string> all;
  for (const auto& q : store.asked) {
    const char* const name = q.op == take ? "take " : q.op == peek ? "peek " : q.op == refund ? "refund " : "reset ";
    all.push_back(name + q.key.substr(std::string{"ratelimit:"}.size()) + " " + std::to_string(q.cost));
  }
  store.asked.clear();
  return all;
}

using words = std::vector<std::string>;

}  // namespace

TEMPLATE_TEST_CASE("one after the other: the same answers, and what was taken is given back", "[joint]",
                   kept_apart<on_memory>, kept_apart<on_redis>) {
  TestType b;
  b.clock.set(midnight);
  const all_of quota{window_of(b, "one", 9, 24h), log_of(b, "region", 2, 24h, {.by = scope::region}),
                     bucket_of(b, "all", 9, 24h, {.by = scope::everyone})};
  CHECK(quota.check("client", "eu").parts[2].used == 1);
  CHECK(asked(b.store) == words{"take window:one:{client}:eu 1", "take log:region:eu 1", "take bucket:all 1"});
  CHECK(quota.check("other", "eu").limit_name == "region");
  b.store.asked.clear();

  const auto denied = quota.check("client", "eu", 2);
  CHECK_FALSE(denied.allowed);
  CHECK(denied.limit_name == "region");
  CHECK((denied.retry_after == 24h));
  CHECK(denied.parts[0].allowed);
  CHECK(denied.parts[0].used == 1);
  CHECK(denied.parts[0].remaining == 8);
  CHECK((denied.parts[0].reset_after == 24h));
  CHECK(denied.parts[1].used == 2);
  CHECK(denied.parts[2].allowed);
  CHECK(denied.parts[2].used == 2);
  CHECK(asked(b.store) == words{"take window:one:{client}:eu 2", "take log:region:eu 2",
                                "refund window:one:{client}:eu 2", "peek bucket:all 2"});

  const auto never = quota.check("client", "eu", 3);  // known before anything is taken
  CHECK(never.retry_after == std::nullopt);
  CHECK(asked(b.store) == words{"peek window:one:{client}:eu 3", "peek log:region:eu 1", "peek bucket:all 3"});
  CHECK(quota.refund("client", "eu", 1).parts[1].used == 1);
  CHECK(asked(b.store) == words{"refund window:one:{client}:eu 1", "refund log:region:eu 1", "refund bucket:all 1"});
  CHECK_FALSE(quota.reset("client", "eu"));
  CHECK(asked(b.store) == words{"reset window:one:{client}:eu 1", "reset log:region:eu 1", "reset bucket:all 1"});
  CHECK(quota.peek("client", "eu").parts[2].used == 0);
}

TEMPLATE_TEST_CASE("one after the other: a refusal by the first takes nothing, one by a shadow limit stops nothing",
                   "[joint]", kept_apart<on_memory>, kept_apart<on_redis>) {
  TestType b;
  const all_of quota{window_of(b, "first", 1, 24h), window_of(b, "tried", 1, 24h, {.shadow = true}),
                     window_of(b, "last", 3, 24h)};
  CHECK(quota.check("client").allowed);
  b.store.asked.clear();
  CHECK_FALSE(quota.check("client").allowed);
  CHECK(asked(b.store) ==
        words{"take window:first:{client}: 1", "peek window:tried:{client}: 1", "peek window:last:{client}: 1"});
  const all_of tried{window_of(b, "tried", 1, 24h, {.shadow = true}), window_of(b, "last", 3, 24h)};
  for (std::int64_t used = 2; used <= 3; ++used) {
    const auto d = tried.check("client");
    CHECK(d.allowed);
    CHECK(d.would_deny);
    CHECK(d.parts[1].used == used);
  }
  CHECK_FALSE(tried.check("client").allowed);
  CHECK(tried.peek("client").parts[0].used == 1);  // what it never took is not given back
}

TEMPLATE_TEST_CASE("one after the other: ids are counted once, and decided anew after a refusal", "[joint]",
                   kept_apart<on_memory>, kept_apart<on_redis>) {
  TestType b;
  b.clock.set(midnight);
  const all_of quota{log_of(b, "first", 9, 1h), window_of(b, "last", 1, 24h, {.by = scope::everyone})};
  const call one{.identity = "client", .region = "eu", .request_id = "r1"};
  const call two{.identity = "client", .region = "eu", .request_id = "r2"};
  for (int i = 0; i < 2; ++i) {
    const auto d = quota.check(one);
    CHECK(d.allowed);
    CHECK(d.parts[0].used == 1);
    CHECK(d.parts[1].used == 1);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(quota.check(two).allowed);
    CHECK(quota.peek("client", "eu").parts[0].used == 1);
  }
  CHECK(quota.refund("client", "eu", 1).parts[1].used == 0);
  for (int i = 0; i < 2; ++i) {
    const auto d = quota.check(two);
    CHECK(d.allowed);
    CHECK(d.parts[0].used == 1);
    CHECK(d.parts[1].used == 1);
  }
  // All of them remember it for the first one's window.
  b.clock.set(midnight + 1h - 1us);
  CHECK(quota.check(two).allowed);
  b.clock.set(midnight + 1h);
  CHECK_FALSE(quota.check(two).allowed);
}

TEST_CASE("one after the other: a refund goes to the window that took it, not to a later one", "[joint]") {
  with_own_clock b;
  const auto first_window = window_of(b, "window", 9, 1h);
  const auto first_counter = counter_of(b, "counter", 9, 1h);
  const auto first_log = log_of(b, "log", 9, 1ms);
  const all_of quota{first_window, first_counter, first_log, window_of(b, "last", 1, 240h)};
  const std::int64_t edge = (midnight + 1h).time_since_epoch().count();
  std::int64_t now = edge - 10;
  int between = 0;
  b.store.meddle = [&](request& what) -> std::optional<outcome> {
    // The last limit is asked when the next window has begun, and another call has been counted in it.
    if (what.key.find("last") != std::string_view::npos && what.op == take && ++between == 2) {
      now = edge + 2000;
      first_window.check("client");
      first_counter.check("client");
      first_log.check("client");
    }
    what.now = now;
    return std::nullopt;
  };
  CHECK(quota.check("client").allowed);
  const auto denied = quota.check("client");
  CHECK_FALSE(denied.allowed);
  CHECK(denied.limit_name == "last");
  CHECK(denied.parts[0].used == 1);  // the call in between
  CHECK(denied.parts[1].used == 1);  // and floor(1 * (1h - 2ms) / 1h) = 0 of the first call
  CHECK(denied.parts[2].used == 1);
  now = edge - 10;  // back in the window before: nothing of it is left in a fixed window
  now = edge + 2000;
  CHECK(first_counter.refund("client", {}, 1).used == 0);
  CHECK(first_window.peek("client").used == 1);
}

TEST_CASE("one after the other: an error gives back what was taken, and nobody has decided", "[joint]") {
  kept_apart<on_memory> b;
  const auto first = window_of(b, "first", 9, 24h, {.on_failure = fail::open});
  const auto middle = window_of(b, "middle", 9, 24h, {.by = scope::everyone, .on_failure = fail::open});
  const auto last = window_of(b, "last", 9, 24h, {.by = scope::region, .on_failure = fail::open});
  const all_of quota{first, middle, last};
  for (const std::string failing : {"first", "middle", "last"}) {
    CAPTURE(failing);
    b.store.meddle = [&](request& what) -> std::optional<outcome> {
      if (what.key.find(failing) == std::string_view::npos) return std::nullopt;
      return outcome{.error = errc::closed};
    };
    const call one{.identity = "client", .region = "eu", .request_id = "r1"};
    const auto d = quota.check(one);
    CHECK(d.allowed);
    CHECK(d.from == source::failed_open);
    CHECK(d.error == errc::closed);
    for (const decision& part : d.parts) {
      CHECK(part.from == source::failed_open);
      CHECK(part.error == errc::closed);
    }
    b.store.meddle = nullptr;
    for (const decision& part : quota.peek("client", "eu").parts) CHECK(part.used == 0);
    // Its id is forgotten with it.
    CHECK(quota.check(one).parts[0].used == 1);
    CHECK(quota.refund("client", "eu", 1).parts[0].used == 0);
    CHECK_FALSE(quota.reset("client", "eu"));
    b.inner.store.clear();
  }
  CHECK(b.inner.keys() == 0);
}

TEST_CASE("one after the other: a refusal stands, whatever fails after it", "[joint]") {
  kept_apart<on_memory> b;
  const all_of quota{
      window_of(b, "first", 9, 24h, {.on_failure = fail::open}),
      window_of(b, "full", 1, 24h, {.by = scope::everyone, .on_failure = fail::open}),
      window_of(b, "last", 9, 24h, {.by = scope::region, .on_failure = GENERATE(fail::open, fail::closed)})};
  CHECK(quota.check("client", "eu").allowed);
  operation failing = refund;
  b.store.meddle = [&](request& what) -> std::optional<outcome> {
    if (what.op != failing) return std::nullopt;
    return outcome{.error = errc::timeout};
  };
  // The refund: what was taken stays taken, and says so.
  const auto stuck = quota.check("client", "eu");
  CHECK_FALSE(stuck.allowed);
  CHECK(stuck.from == source::memory);
  CHECK(stuck.limit_name == "full");
  CHECK((stuck.retry_after == stuck.parts[1].retry_after));
  CHECK(stuck.parts[0].allowed);
  CHECK(stuck.parts[0].used == 2);
  CHECK(stuck.parts[2].used == 1);
  // The question how the rest stands.
  failing = peek;
  const auto unknown = quota.check("client", "eu");
  CHECK_FALSE(unknown.allowed);
  CHECK(unknown.from == source::memory);
  CHECK(unknown.limit_name == "full");
  CHECK(unknown.retry_after.has_value());
  CHECK(unknown.parts[0].used == 2);
  CHECK_FALSE(unknown.parts[2].counted());
  CHECK(unknown.parts[2].error == errc::timeout);
  b.store.meddle = nullptr;
  CHECK(quota.peek("client", "eu").parts[0].used == 2);
}

TEST_CASE("a batch whose keys are apart is asked call by call", "[joint]") {
  kept_apart<on_memory> b;
  const all_of quota{window_of(b, "one", 9, 24h), window_of(b, "all", 2, 24h, {.by = scope::everyone})};
  const std::vector<call> calls{{.identity = "a"}, {.identity = ""}, {.identity = "b"}, {.identity = "c"}};
  const auto all = quota.check_many(calls);
  CHECK(all[0].parts[1].used == 1);
  CHECK(all[1].error == errc::invalid_identity);
  CHECK(all[2].parts[1].used == 2);
  CHECK_FALSE(all[3].allowed);
  CHECK(all[3].parts[0].used == 0);
  CHECK(asked(b.store) == words{"take window:one:{a}: 1", "take window:all 1", "take window:one:{b}: 1",
                                "take window:all 1", "take window:one:{c}: 1", "take window:all 1",
                                "refund window:one:{c}: 1"});
}

TEMPLATE_TEST_CASE("a block refuses a call whose id is known, and that is all that is told", "[joint]", on_memory,
                   on_redis, kept_apart<on_memory>, kept_apart<on_redis>) {
  TestType b;
  b.clock.set(midnight);
  const auto first = log_of(b, "first", 10, 60s);
  const auto last = window_of(b, "last", 1, 60s, {.by = scope::everyone});
  const auto tried = window_of(b, "tried", 1, 60s, {.shadow = true});
  const all_of quota{first, last, tried};
  const call one{.identity = "client", .request_id = "r1"};
  CHECK(tried.check("client").used == 1);
  CHECK(quota.check(one).would_deny);
  CHECK_FALSE(tried.reset("client"));
  CHECK_FALSE(first.block("client", {}, 1s));

  const auto d = quota.check(one);
  CHECK_FALSE(d.allowed);
  CHECK(d.limit_name == "first");
  CHECK((d.retry_after == 1s));
  CHECK(d.repeated);
  CHECK(d.used == 1);
  CHECK(d.parts[1].allowed);
  CHECK(d.parts[1].repeated);
  CHECK(d.parts[1].used == 1);
  CHECK(d.parts[1].retry_after == std::nullopt);
  CHECK(d.parts[2].allowed);
  CHECK(d.parts[2].used == 0);
  CHECK(tried.peek("client").used == 0);  // it does not know the id, and has not counted the call now

  b.clock.advance(1s);
  const auto again = quota.check(one);
  CHECK(again.allowed);
  CHECK(again.repeated);
  CHECK(first.peek("client").used == 1);
  CHECK(last.peek("client").used == 1);
}
