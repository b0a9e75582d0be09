// Refusals that the process remembers.
#include <ratelimit/deny_cache.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "stores.hpp"
#include "support/allocations.hpp"

namespace {

using namespace inprocess;
using ratelimit::call;
using ratelimit::decision;
using ratelimit::manual_clock;

// 10 units a minute, refusals remembered.
template <class Store, class Clock = manual_clock>
auto cached_log(Store& store, const Clock& clock, std::size_t entries = 100, bool shadow = false) {
  return ratelimit::sliding_log{store,
                                {.name = "recipe",
                                 .limit = 10,
                                 .window = 60s,
                                 .on_failure = fail::closed,
                                 .deadline = recipes::patience,
                                 .deny_cache = entries,
                                 .shadow = shadow},
                                clock};
}

decision refusal(microseconds wait) {
  return {.from = source::redis,
          .limit_name = "recipe",
          .limit = 10,
          .used = 10,
          .retry_after = wait,
          .reset_after = wait,
          .full_after = 2 * wait,
          .at = w0,
          .window = 60s};
}

}  // namespace

TEST_CASE("A refused identity's next 1,000,000 checks send nothing", "[inprocess]") {
  on_redis b;
  const auto limiter = cached_log(b.store, b.clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  CHECK(limiter.check("client", "eu").from == source::redis);
  b.server.reset_statistics();
  const long long before = b.server.info("total_commands_processed");
  int answered = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const decision d = limiter.check("client", "eu");
    answered += !d.allowed && d.from == source::deny_cache && d.retry_after == 60s;
  }
  CHECK(answered == 1'000'000);
  CHECK(b.server.info("total_commands_processed") - before == 1);  // the INFO that asked before
  CHECK(b.server.calls("evalsha") == 0);
  CHECK(b.server.calls("eval") == 0);
}

TEMPLATE_TEST_CASE("A remembered refusal ends exactly with its wait", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = cached_log(b.store, b.clock);
  CHECK(limiter.check("client", "eu", 4).allowed);
  b.clock.advance(10s);
  CHECK(limiter.check("client", "eu", 6).allowed);
  b.clock.advance(1s);

  const decision first = limiter.check("client", "eu");
  CHECK(first.from == TestType::origin);
  CHECK(figures(first) == deny(10, 0, 49s, 49s, 59s));
  for (const microseconds gone : {0us, 1us, 1'234'567us, 48'999'998us, 48'999'999us}) {
    b.clock.set(w0 + 11s + gone);
    const decision d = limiter.check("client", "eu");
    INFO(gone.count() << " us later");
    CHECK(d.from == source::deny_cache);
    CHECK(figures(d) == deny(10, 0, 49s - gone, 49s - gone, 59s - gone));
    CHECK(d.limit == 10);
    CHECK(d.window == 60s);
    CHECK(d.limit_name == "recipe");
    CHECK(d.error == std::error_code{});
    CHECK(d.at == w0 + 11s + gone);
    CHECK(d.counted());
    CHECK_FALSE(d.would_deny);
  }
  b.clock.set(w0 + 60s);
  const decision after = limiter.check("client", "eu");
  CHECK(after.from == TestType::origin);
  CHECK(figures(after) == pass(7, 3, 10s, 60s));
}

TEST_CASE("The wait of the server's clock ends by the monotonic clock", "[inprocess]") {
  failing_store store;
  const ratelimit::fixed_window limiter{
      store, {.name = "recipe", .limit = 1, .window = 200ms, .on_failure = fail::closed, .deny_cache = 10}};
  // Until a window is met that is not about to end.
  decision d;
  do {
    limiter.check("client");
    d = limiter.check("client");
  } while (d.allowed || d.from != source::memory);
  const int asked = store.asked;
  // Each refusal is remembered; when the wait told is over, the store is asked and lets it pass.
  decision last = limiter.check("client");
  while (!last.allowed) last = limiter.check("client");
  CHECK(last.from == source::memory);
  CHECK(last.at >= d.at + *d.retry_after);
  CHECK(store.asked - asked >= 1);
}

TEST_CASE("A larger cost is refused too, a smaller one asks", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 8).allowed);
  CHECK(figures(limiter.check("client", "eu", 5)) == deny(8, 2, 60s, 60s, 60s));
  CHECK(store.asked == 2);
  for (const std::int64_t cost : {5, 6, 10}) {
    CHECK(limiter.check("client", "eu", cost).from == source::deny_cache);
  }
  CHECK(store.asked == 2);
  // A cost above the limit is told that waiting cannot help: the store is asked how the quota stands.
  CHECK(figures(limiter.check("client", "eu", 11)) == never(8, 2, 60s, 60s));
  CHECK(store.asked == 3);
  CHECK(figures(limiter.check("client", "eu", 4)) == deny(8, 2, 60s, 60s, 60s));
  CHECK(store.asked == 4);
  // Now 4 is remembered.
  CHECK(limiter.check("client", "eu", 4).from == source::deny_cache);
  CHECK(limiter.check("client", "eu", 2).allowed);
  CHECK(store.asked == 5);
}

TEST_CASE("Waits stay consistent while a large cost waits for several entries", "[inprocess]") {
  failing_store store;
  manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 4).allowed);
  clock.advance(10s);
  CHECK(limiter.check("client", "eu", 4).allowed);
  CHECK(figures(limiter.check("client", "eu", 7)) == deny(8, 2, 60s, 50s, 60s));
  clock.advance(50s - 1us);
  CHECK(figures(limiter.check("client", "eu", 7)) == deny(8, 2, 10s + 1us, 1us, 10s + 1us));
  // The first entry is gone, which only the store knows; a wait of 0 would say that the quota is full.
  clock.advance(1us);
  CHECK(figures(limiter.check("client", "eu", 7)) == deny(8, 2, 10s, 10s, 10s));
  CHECK(limiter.check("client", "eu", 7).from == source::deny_cache);
  clock.advance(10s);
  CHECK(figures(limiter.check("client", "eu", 7)) == pass(7, 3, 60s, 60s));
}

TEST_CASE("Another limit asks", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  CHECK(limiter.check("client", "eu").retry_after == 60s);
  CHECK(limiter.check("client", "eu").from == source::deny_cache);
  CHECK(figures(limiter.check(call{.identity = "client", .region = "eu", .limit = 11})) == pass(11, 0, 60s, 60s));
  CHECK(store.asked == 3);
  // A smaller limit has other numbers, and another wait.
  const decision smaller = limiter.check(call{.identity = "client", .region = "eu", .limit = 5});
  CHECK(smaller.limit == 5);
  CHECK(smaller.from == source::memory);
  CHECK(figures(smaller) == deny(11, 0, 60s, 60s, 60s));
  CHECK(limiter.check(call{.identity = "client", .region = "eu", .limit = 5}).from == source::deny_cache);
}

TEMPLATE_TEST_CASE("Reset, refund and block forget the refusal", "[inprocess]", on_memory, on_redis) {
  TestType b;
  const auto limiter = cached_log(b.store, b.clock);
  const auto refuse = [&](const std::string& identity) {
    CHECK(limiter.check(identity, "eu", 10).allowed);
    CHECK(limiter.check(identity, "eu").from == TestType::origin);
    CHECK(limiter.check(identity, "eu").from == source::deny_cache);
  };
  refuse("reset");
  CHECK_FALSE(limiter.reset("reset", "eu"));
  CHECK(figures(limiter.check("reset", "eu")) == pass(1, 9, 60s, 60s));

  refuse("refund");
  CHECK(figures(limiter.refund("refund", "eu", 3)) == pass(7, 3, 60s, 60s));
  CHECK(figures(limiter.check("refund", "eu")) == pass(8, 2, 60s, 60s));

  refuse("block");
  CHECK_FALSE(limiter.block("block", "eu", 90s));
  const decision blocked = limiter.check("block", "eu");
  CHECK(blocked.from == TestType::origin);
  CHECK(figures(blocked) == deny(10, 0, 90s, 90s, 60s));
  CHECK(limiter.check("block", "eu").from == source::deny_cache);
  b.clock.advance(90s - 1us);
  CHECK(limiter.check("block", "eu").retry_after == 1us);
  b.clock.advance(1us);
  CHECK(figures(limiter.check("block", "eu")) == pass(1, 9, 60s, 60s));
}

TEST_CASE("A refusal that was overtaken by a reset is not remembered", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  store.before_answer = [&] { CHECK_FALSE(limiter.reset("client", "eu")); };
  CHECK_FALSE(limiter.check("client", "eu").allowed);
  CHECK(figures(limiter.check("client", "eu")) == pass(1, 9, 60s, 60s));
}

TEST_CASE("An id that was admitted passes again, whatever is remembered", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  const call first{.identity = "client", .region = "eu", .cost = 10, .request_id = "a"};
  CHECK(limiter.check(first).allowed);
  CHECK_FALSE(limiter.check("client", "eu", 10).allowed);
  CHECK(limiter.check("client", "eu", 10).from == source::deny_cache);
  const decision again = limiter.check(first);
  CHECK(again.from == source::memory);
  CHECK(figures(again) == pass(10, 0, 60s, 60s));
}

TEST_CASE("Only real refusals with a known wait are remembered", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  store.error = errc::timeout;
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("client", "eu").from == source::failed_closed);
  CHECK(store.asked == 3);
  store.error = {};
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("", "eu").from == source::invalid);
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("client", "eu", -1).from == source::invalid);
  CHECK(store.asked == 3);
  for (int i = 0; i < 3; ++i) CHECK(figures(limiter.check("client", "eu", 11)) == never(0, 10, 0us, 0us));
  CHECK(store.asked == 6);
  CHECK(limiter.check("client", "eu", 10).allowed);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(limiter.peek("client", "eu").allowed);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(limiter.check("client", "eu", 0).allowed);
  CHECK(store.asked == 13);
  CHECK(limiter.check("client", "eu").from == source::memory);
  // A peek sees what the store holds, not what is remembered.
  CHECK(limiter.peek("client", "eu").from == source::memory);
  CHECK(limiter.check("client", "eu", 0).from == source::memory);
}

TEST_CASE("A local refusal is not remembered", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const ratelimit::sliding_log limiter{
      store, {.name = "recipe", .limit = 1, .window = 60s, .on_failure = fail::local, .deny_cache = 10}, clock};
  store.error = errc::refused;
  CHECK(limiter.check("client").allowed);
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("client").from == source::local);
  store.error = {};
  CHECK(figures(limiter.check("client")) == pass(1, 0, 60s, 60s));
}

TEST_CASE("While a refusal is remembered, an outage does not matter to it", "[inprocess]") {
  failing_store store;
  manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  CHECK_FALSE(limiter.check("client", "eu").allowed);
  store.error = errc::timeout;
  CHECK(limiter.check("client", "eu").from == source::deny_cache);
  clock.advance(60s);
  CHECK(limiter.check("client", "eu").from == source::failed_closed);
}

TEST_CASE("Shadow refusals are remembered, and not enforced", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock, 100, true);
  CHECK(limiter.check("client", "eu", 10).allowed);
  limiter.check("client", "eu");
  const decision d = limiter.check("client", "eu");
  CHECK(store.asked == 2);
  CHECK(d.from == source::deny_cache);
  CHECK(d.would_deny);
  CHECK(figures(d) == pass(10, 0, 60s, 60s));
}

TEST_CASE("Limits, identities and regions are remembered apart", "[inprocess]") {
  failing_store store;
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  CHECK_FALSE(limiter.check("client", "eu").allowed);
  CHECK(limiter.check("client", "us").allowed);
  CHECK(limiter.check("other", "eu").allowed);
  CHECK(cached_log(store, clock).check("client", "eu").from == source::memory);
}

TEST_CASE("When the deny cache is full, the refusal that ends first goes", "[inprocess]") {
  ratelimit::deny_cache cache{3};
  cache.add("a", 1, refusal(30s), 0, 0);
  cache.add("b", 1, refusal(10s), 0, 0);
  cache.add("c", 1, refusal(20s), 0, 0);
  CHECK(cache.size() == 3);
  CHECK(cache.find("b", 1, 10, 1));
  cache.add("d", 1, refusal(15s), 0, 0);
  CHECK(cache.size() == 3);
  CHECK_FALSE(cache.find("b", 1, 10, 1));
  for (const char* const key : {"a", "c", "d"}) CHECK(cache.find(key, 1, 10, 1));
  // A refusal heard anew takes its own place.
  cache.add("d", 1, refusal(60s), 0, 0);
  CHECK(cache.size() == 3);
  cache.add("e", 1, refusal(5s), 0, 0);
  CHECK_FALSE(cache.find("c", 1, 10, 1));
  CHECK(cache.find("d", 1, 10, 1)->retry_after == 60s - 1us);
  CHECK(cache.find("e", 1, 10, 1)->retry_after == 5s - 1us);
  cache.forget("e");
  cache.forget("nobody");
  CHECK(cache.size() == 2);
  CHECK_FALSE(cache.find("e", 1, 10, 1));
}

TEST_CASE("A clock that steps back finds no refusal of the future", "[inprocess]") {
  failing_store store;
  manual_clock clock{w0};
  const auto limiter = cached_log(store, clock);
  CHECK(limiter.check("client", "eu", 10).allowed);
  CHECK_FALSE(limiter.check("client", "eu").allowed);
  clock.advance(-1us);
  CHECK(limiter.check("client", "eu").from == source::memory);
}

TEST_CASE("1,000,000 refused identities keep the deny cache's memory within its cap", "[inprocess]") {
  ratelimit::deny_cache cache{1000};
  const auto fill = [&](int from, int to) {
    for (int i = from; i < to; ++i)
      cache.add("ratelimit:log:recipe:{client" + std::to_string(i) + "}:eu", 1, refusal(1s), i, 0);
  };
  fill(0, 10'000);
  const std::ptrdiff_t before = support::bytes_in_use();
  fill(10'000, 1'000'000);
  CHECK(cache.size() == 1000);
  // The keys are up to two bytes longer: still the same size of block.
  CHECK(support::bytes_in_use() - before <= 16 * 1000);
  CHECK(support::bytes_in_use() - before >= -16 * 1000);
}

TEST_CASE("1,000,000 refused identities through a limiter", "[inprocess]") {
  failing_store store{ratelimit::memory{{.entries = 1000}}};
  const manual_clock clock{w0};
  const auto limiter = cached_log(store, clock, 1000);
  std::ptrdiff_t before = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string identity = "client" + std::to_string(i);
    limiter.check(identity, "eu", 10);
    limiter.check(identity, "eu");
    if (i == 100'000) before = support::bytes_in_use();
  }
  CHECK(store.asked == 2'000'000);
  CHECK(support::bytes_in_use() - before <= 64 * 1000);
  // The last 1,000 are remembered: they ended last. Those before them are not.
  int remembered = 0;
  for (int i = 998'500; i < 1'000'000; ++i)
    remembered += limiter.check("client" + std::to_string(i), "eu").from == source::deny_cache;
  CHECK(remembered == 1000);
}

TEST_CASE("A look-up in the deny cache allocates nothing", "[inprocess]") {
  ratelimit::memory store;
  const auto limiter = cached_log(store, manual_clock{w0});
  const std::string identity(512, ' ');
  CHECK(limiter.check(identity, "eu", 10).allowed);
  CHECK_FALSE(limiter.check(identity, "eu").allowed);
  const std::size_t before = support::allocations_here();
  for (int i = 0; i < 1000; ++i) limiter.check(identity, "eu");
  CHECK(support::allocations_here() == before);
}

TEST_CASE("Many threads at one deny cache", "[inprocess]") {
  ratelimit::memory store;
  manual_clock clock{w0};
  const auto limiter = cached_log(store, clock, 3);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const std::string identity = "client" + std::to_string((i + t) % 8);
        const decision d = limiter.check(identity, "eu", 6);
        if (!d.allowed && (!d.retry_after || *d.retry_after <= 0us || *d.retry_after > 60s)) ++wrong;
        if (i % 64 == 0) limiter.reset(identity, "eu");
        if (t == 0) clock.advance(1ms);
      }
    });
  for (std::thread& one : threads) one.join();
  CHECK(wrong == 0);
}
