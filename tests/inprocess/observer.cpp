// Who is told what, and how often.
#include <ratelimit/observer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "stores.hpp"

namespace {

using namespace inprocess;
using ratelimit::decision;
using ratelimit::manual_clock;
using ratelimit::observation;
using ratelimit::operation;

// 10 units a minute.
template <class Store>
auto watched(Store& store, const manual_clock& clock, ratelimit::observer observer, fail on_failure = fail::closed,
             bool shadow = false) {
  return ratelimit::sliding_log{store,
                                {.name = "recipe",
                                 .limit = 10,
                                 .window = 60s,
                                 .on_failure = on_failure,
                                 .deadline = recipes::patience,
                                 .shadow = shadow,
                                 .observer = std::move(observer)},
                                clock};
}

// What was told of an identity near its limit.
struct near_calls {
  std::vector<std::string> who{};
  std::vector<std::int64_t> used{};

  ratelimit::observer observer(double ratio = 0.8) {
    return {.near =
                [this](const ratelimit::near_limit& n) {
                  who.push_back(std::string{n.identity} + "@" + std::string{n.region});
                  used.push_back(n.result.used);
                },
            .near_ratio = ratio};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("An observer is told of each check and refund as it was answered", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  std::vector<decision> told;
  std::vector<operation> operations;
  const auto limiter = watched(b.store, b.clock, {.decided = [&](const observation& o) {
                                 told.push_back(o.result);
                                 operations.push_back(o.op);
                                 CHECK(o.algorithm == ratelimit::algorithm_id::sliding_log);
                                 CHECK(o.took.count() > 0);
                               }});
  std::vector<decision> answers{limiter.check("client", "eu"), limiter.check("client", "eu", 10),
                                limiter.check("client", "eu", 11), limiter.check("", "eu"),
                                limiter.refund("client", "eu", 1)};
  limiter.peek("client", "eu");
  CHECK_FALSE(limiter.block("client", "eu", 1s));
  CHECK_FALSE(limiter.reset("client", "eu"));
  REQUIRE(told.size() == answers.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    CHECK(figures(told[i]) == figures(answers[i]));
    CHECK(told[i].from == answers[i].from);
    CHECK(told[i].error == answers[i].error);
    CHECK(told[i].limit == 10);
    CHECK(told[i].limit_name == "recipe");
    CHECK(told[i].at == answers[i].at);
  }
  CHECK(operations ==
        std::vector{operation::take, operation::take, operation::take, operation::take, operation::refund});
}

TEST_CASE("A batch is told of call by call", "[inprocess]") {
  ratelimit::memory store;
  std::vector<std::int64_t> told;
  const auto limiter =
      watched(store, manual_clock{w0}, {.decided = [&](const observation& o) { told.push_back(o.result.used); }});
  const std::vector<ratelimit::call> calls{{.identity = "client"}, {.identity = "client", .cost = 3}};
  CHECK(limiter.check_many(calls).size() == 2);
  CHECK(told == std::vector<std::int64_t>{1, 4});
}

TEST_CASE("A limit that had room is not near for calls that another limit refused", "[inprocess]") {
  ratelimit::memory store;
  const manual_clock clock{w0};
  near_calls told;
  const auto roomy = watched(store, clock, told.observer());
  const ratelimit::sliding_log narrow{
      store, {.name = "narrow", .limit = 8, .window = 60s, .on_failure = fail::closed}, clock};
  const ratelimit::all_of both{roomy, narrow};
  for (int i = 0; i < 8; ++i) CHECK(both.check("client", "eu").allowed);
  CHECK(told.used == std::vector<std::int64_t>{8});
  for (int i = 0; i < 3; ++i) CHECK_FALSE(both.check("client", "eu").allowed);
  CHECK(told.used == std::vector<std::int64_t>{8});
  CHECK(told.who == std::vector<std::string>{"client@eu"});
}

TEST_CASE("What an observer throws is dropped", "[inprocess]") {
  failing_store store;
  int calls = 0;
  const auto limiter = watched(store, manual_clock{w0},
                               {.decided =
                                    [&](const observation&) {
                                      ++calls;
                                      throw std::runtime_error{"no"};
                                    },
                                .near =
                                    [&](const ratelimit::near_limit&) {
                                      ++calls;
                                      throw 7;
                                    }});
  CHECK(figures(limiter.check("client", "eu", 8)) == pass(8, 2, 60s, 60s));
  CHECK(calls == 2);
  CHECK(figures(limiter.check("client", "eu", 3)) == deny(8, 2, 60s, 60s, 60s));
  CHECK(limiter.refund("client", "eu", 8).used == 0);
  store.error = errc::timeout;
  CHECK(limiter.check("client", "eu").error == errc::timeout);
  CHECK(calls == 5);
}

TEMPLATE_TEST_CASE("An observer may call the limiter again", "[inprocess]", on_memory, on_redis) {
  TestType b;
  struct nest {
    std::function<void()> again{};
    int depth = 0;
    int calls = 0;
    void enter() {
      ++calls;
      if (depth == 3) return;
      ++depth;
      again();
      --depth;
    }
  } nested;
  int told_near = 0;
  const auto limiter = watched(b.store, b.clock,
                               {.decided = [&](const observation&) { nested.enter(); },
                                .near =
                                    [&](const ratelimit::near_limit&) {
                                      ++told_near;
                                      nested.again();
                                    }});
  nested.again = [&] {
    limiter.check("client", "eu");
    limiter.refund("other", "eu", 1);
  };
  // From `near` alone: the eighth check, and in its observer a ninth and a refund.
  nested.depth = 3;
  for (int i = 0; i < 7; ++i) limiter.check("client", "eu");
  CHECK(told_near == 0);
  nested.calls = 0;
  limiter.check("client", "eu");
  CHECK(told_near == 1);
  CHECK(nested.calls == 3);
  CHECK(limiter.peek("client", "eu").used == 9);

  // From `decided`, two deep: a check and a refund in each of the first 1 + 2 calls.
  CHECK_FALSE(limiter.reset("client", "eu"));
  nested.depth = 1;
  nested.calls = 0;
  limiter.check("client", "eu");
  CHECK(nested.calls == 1 + 2 * (1 + 2));
  CHECK(limiter.peek("client", "eu").used == 1 + 1 + 2);
}

TEMPLATE_TEST_CASE("Near the limit is told once for each rise, to the one whose call did it", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  near_calls first;
  near_calls second;
  const auto here = watched(b.store, b.clock, first.observer());
  const auto there = watched(b.store, b.clock, second.observer());
  for (int i = 0; i < 7; ++i) here.check("client", "eu");
  CHECK(first.who.empty());
  there.check("client", "eu");
  CHECK(second.who == std::vector<std::string>{"client@eu"});
  CHECK(second.used == std::vector<std::int64_t>{8});
  for (int i = 0; i < 5; ++i) {
    here.check("client", "eu");
    there.check("client", "eu");
    here.check("client", "eu", 0);
    here.peek("client", "eu");
  }
  CHECK(first.who.empty());
  CHECK(second.who.size() == 1);
  // Down by a refund and up again: a rise of its own.
  here.refund("client", "eu", 5);
  CHECK(first.who.empty());
  here.check("client", "eu", 5);
  CHECK(first.who == std::vector<std::string>{"client@eu"});
  CHECK(first.used == std::vector<std::int64_t>{10});
  // And when the window has passed.
  b.clock.advance(60s);
  there.check("client", "eu", 10);
  CHECK(second.who.size() == 2);
  CHECK(first.who.size() == 1);
}

TEMPLATE_TEST_CASE("Near the limit is not told again of a call that repeats an id", "[inprocess]", on_memory,
                   on_redis) {
  TestType b;
  near_calls told;
  const auto limiter = watched(b.store, b.clock, told.observer());
  const ratelimit::fixed_window day{
      b.store, {.name = "day", .limit = 100, .window = 24h, .on_failure = fail::closed}, b.clock};
  const ratelimit::all_of both{limiter, day};
  const auto with_id = [](std::string_view identity) {
    return ratelimit::call{.identity = identity, .cost = 8, .request_id = "r1"};
  };
  for (int i = 0; i < 3; ++i) CHECK(limiter.check(with_id("alone")).used == 8);
  CHECK(told.who == std::vector<std::string>{"alone@"});
  for (int i = 0; i < 3; ++i) {
    const auto d = both.check(with_id("joint"));
    CHECK(d.used == 8);
    CHECK(d.repeated == (i > 0));
    CHECK(d.parts[1].used == 8);
    CHECK(d.parts[1].repeated == (i > 0));
  }
  CHECK(told.who == std::vector<std::string>{"alone@", "joint@"});
}

TEST_CASE("Near the limit is not told of what was refused, or of what nobody counted", "[inprocess]") {
  failing_store store;
  near_calls told;
  const auto limiter = watched(store, manual_clock{w0}, told.observer(), fail::open);
  CHECK(limiter.check("client", "eu", 7).allowed);
  CHECK_FALSE(limiter.check("client", "eu", 4).allowed);
  store.error = errc::timeout;
  for (int i = 0; i < 20; ++i) limiter.check("client", "eu");
  CHECK(told.who.empty());

  near_calls local;
  const auto fallback = watched(store, manual_clock{w0}, local.observer(), fail::local);
  for (int i = 0; i < 20; ++i) fallback.check("client", "us");
  CHECK(local.used == std::vector<std::int64_t>{8});

  store.error = {};
  near_calls shadowed;
  const auto shadow = watched(store, manual_clock{w0}, shadowed.observer(), fail::open, true);
  for (int i = 0; i < 20; ++i) shadow.check("client", "asia");
  CHECK(shadowed.used == std::vector<std::int64_t>{8});
}

TEST_CASE("near_ratio", "[inprocess]") {
  ratelimit::memory store;
  for (const auto& [ratio, edge] : std::vector<std::pair<double, std::int64_t>>{{1.0, 10}, {0.5, 5}, {0.05, 1}}) {
    near_calls told;
    const auto limiter = watched(store, manual_clock{w0}, told.observer(ratio));
    for (int i = 0; i < 12; ++i) limiter.check("client" + std::to_string(edge), "eu");
    CHECK(told.used == std::vector<std::int64_t>{edge});
  }
  for (const double ratio : {0.0, -0.5, 1.01})
    CHECK_THROWS_AS(watched(store, manual_clock{w0}, near_calls{}.observer(ratio)), std::invalid_argument);
}

TEST_CASE("Many threads rise over the edge: one is told", "[inprocess]") {
  on_redis b;
  std::atomic<int> told{0};
  const auto limiter = watched(b.store, b.clock, {.near = [&](const ratelimit::near_limit&) { ++told; }});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) limiter.check("client", "eu");
    });
  for (std::thread& one : threads) one.join();
  CHECK(told == 1);
}
