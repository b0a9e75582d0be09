// The in-process store's memory: capped, swept, and not to be flushed by a flood.
#include <ratelimit/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "catch.hpp"
#include "stores.hpp"
#include "support/allocations.hpp"

namespace {

using namespace inprocess;
using ratelimit::manual_clock;

template <class Clock>
auto limit_of_3(ratelimit::memory& store, const Clock& clock, ratelimit::period window = 60s,
                std::string name = "recipe") {
  return ratelimit::sliding_log{
      store, {.name = std::move(name), .limit = 3, .window = window, .on_failure = fail::closed}, clock};
}

std::string client(int i) {
  return "client" + std::to_string(i);
}

}  // namespace

TEST_CASE("1,000,000 identities once each: the cap holds, and the memory is flat", "[inprocess]") {
  for (const std::size_t entries : {std::size_t{1}, std::size_t{1000}, std::size_t{50'000}}) {
    ratelimit::memory store{{.entries = entries}};
    const auto limiter = limit_of_3(store, manual_clock{w0});
    int admitted = 0;
    std::size_t most = 0;
    std::ptrdiff_t before = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      admitted += limiter.check(client(i), "eu").allowed;
      if (i == 500'000) before = support::bytes_in_use();
      if (i % 10'000 == 0) most = std::max(most, store.size());
    }
    CHECK(admitted == 1'000'000);
    CHECK(most <= entries);
    CHECK(store.size() == entries);
    CHECK(support::bytes_in_use() - before <= 64 * static_cast<std::ptrdiff_t>(entries));
  }
}

TEST_CASE("A flood does not give a hot identity its quota back", "[inprocess]") {
  ratelimit::memory store{{.entries = 100}};
  const auto limiter = limit_of_3(store, manual_clock{w0});
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("hot").allowed);
  int given_back = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    limiter.check(client(i));
    if (i % 90 == 0) given_back += limiter.check("hot").used != 3;
  }
  CHECK(given_back == 0);
  CHECK(figures(limiter.check("hot")) == deny(3, 0, 60s, 60s, 60s));
  // The limit of it: who is silent for as many new keys as there is room for begins anew.
  for (int i = 0; i < 100; ++i) limiter.check(client(-i));
  CHECK(figures(limiter.check("hot")) == pass(1, 2, 60s, 60s));
}

TEST_CASE("A flood does not end a block that is hammered against", "[inprocess]") {
  ratelimit::memory store{{.entries = 100}};
  const auto limiter = limit_of_3(store, manual_clock{w0});
  CHECK_FALSE(limiter.block("hot", "", 1h));
  for (int i = 0; i < 10'000; ++i) {
    limiter.check(client(i));
    if (i % 90 == 0) CHECK(limiter.check("hot").retry_after == 1h);
  }
}

TEST_CASE("Dead entries go without being asked for again", "[inprocess]") {
  ratelimit::memory store{{.entries = 10'000}};
  const ratelimit::system_clock clock;
  const auto day = limit_of_3(store, clock, 24h, "day");
  const auto moment = limit_of_3(store, clock, 1ms, "moment");
  day.check("long ago");
  for (int i = 0; i < 9000; ++i) moment.check(client(i));
  std::this_thread::sleep_for(2ms);
  for (int i = 0; i < 1000; ++i) day.peek(client(i));
  CHECK(store.size() == 1);
  // What lives has been kept.
  CHECK(day.peek("long ago").used == 1);
}

TEST_CASE("A clock that stands still, or steps back, lets nothing go early", "[inprocess]") {
  ratelimit::memory store{{.entries = 1000}};
  manual_clock clock{w0};
  const auto limiter = limit_of_3(store, clock, 1ms);
  for (int i = 0; i < 100; ++i) limiter.check(client(i));
  std::this_thread::sleep_for(2ms);
  for (int i = 0; i < 1000; ++i) limiter.check("other");
  CHECK(store.size() == 101);
  CHECK(figures(limiter.peek(client(0))) == pass(1, 2, 1ms, 1ms));
  std::this_thread::sleep_for(2ms);
  clock.advance(1ms);
  for (int i = 0; i < 1000; ++i) limiter.peek("other");
  CHECK(store.size() == 0);
}

TEST_CASE("Refusals, peeks and malformed calls take no room", "[inprocess]") {
  ratelimit::memory store;
  const auto limiter = limit_of_3(store, manual_clock{w0});
  for (int i = 0; i < 1000; ++i) {
    limiter.peek(client(i));
    limiter.check(client(i), "eu", 4);
    limiter.check(client(i), "eu", -1);
    limiter.refund(client(i), "eu", 1);
    CHECK_FALSE(limiter.reset(client(i)));
  }
  CHECK(store.size() == 0);
}

TEMPLATE_TEST_CASE("Identities of 8 MB are refused by their length", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = recipes::sliding_log(b, 3, 60s);
  std::string giant(std::size_t{8} << 20, 'x');
  const std::ptrdiff_t before = support::bytes_in_use();
  for (int i = 0; i < 1000; ++i) {
    giant[static_cast<std::size_t>(i)] = 'y';
    const ratelimit::decision d = limiter.check(giant, "eu");
    CHECK_FALSE(d.allowed);
    CHECK(d.from == source::invalid);
    CHECK(d.error == errc::invalid_identity);
    CHECK(limiter.check("client", giant).error == errc::invalid_region);
  }
  CHECK(b.keys() == 0);
  CHECK(support::bytes_in_use() - before <= 64 * 1024);
}

TEST_CASE("No room is not an option", "[inprocess]") {
  CHECK_THROWS_AS(ratelimit::memory{{.entries = 0}}, std::invalid_argument);
}

TEST_CASE("Room for one key is the key's own, not the ids' of its calls", "[inprocess]") {
  for (const std::size_t entries : {std::size_t{1}, std::size_t{2}}) {
    ratelimit::memory store{{.entries = entries}};
    const ratelimit::fixed_window limiter{
        store, {.name = "recipe", .limit = 2, .window = 60s, .on_failure = fail::open}, ratelimit::manual_clock{w0}};
    int admitted = 0;
    for (int i = 0; i < 20; ++i)
      admitted += limiter.check({.identity = "client", .request_id = std::to_string(i)}).allowed;
    CHECK(admitted == 2);
  }
}

TEST_CASE("clear forgets every key, and the store goes on", "[inprocess]") {
  ratelimit::memory store{{.entries = 5000}};
  manual_clock clock{w0};
  const auto limiter = limit_of_3(store, clock, 1ms);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4000; ++i) CHECK(limiter.check(client(i)).used == 1);
    CHECK(store.size() == 4000);
    store.clear();
    CHECK(store.size() == 0);
  }
}

TEST_CASE("usage_ratio", "[inprocess]") {
  ratelimit::memory store;
  const auto limiter = limit_of_3(store, manual_clock{w0});
  CHECK(limiter.peek("client").usage_ratio() == 0.0);
  CHECK(limiter.check("client").usage_ratio() == 1.0 / 3);
  CHECK(limiter.check("client", "", 2).usage_ratio() == 1.0);
  // Lowered to 2 with 3 in force.
  CHECK(limiter.check({.identity = "client", .limit = 2}).usage_ratio() == 1.5);
  CHECK(limiter.check("").usage_ratio() == 0.0);
  CHECK(ratelimit::decision{}.usage_ratio() == 0.0);
}
