// fail::local: counting in this process while the store cannot be asked.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "stores.hpp"
#include "support/allocations.hpp"

namespace {

using namespace inprocess;
using ratelimit::decision;
using ratelimit::manual_clock;

template <class Store, class Clock>
auto local_log(Store& store, const Clock& clock, double share, std::int64_t limit = 100) {
  return ratelimit::sliding_log{store,
                                {.name = "recipe",
                                 .limit = limit,
                                 .window = 60s,
                                 .on_failure = fail::local,
                                 .deadline = 1s,
                                 .local_share = share},
                                clock};
}

template <class Store, class Clock>
auto local_bucket(Store& store, const Clock& clock, double share) {
  return ratelimit::token_bucket{store,
                                 {.name = "recipe",
                                  .capacity = 100,
                                  .refill = 10,
                                  .per = 1s,
                                  .on_failure = fail::local,
                                  .deadline = 1s,
                                  .local_share = share},
                                 clock};
}

// Runs `work` in a process of its own for each of `count`, all at once, and `meanwhile` in this one; the sum of what
// the processes return.
template <class Work, class Meanwhile>
int in_processes(int count, const Work& work, const Meanwhile& meanwhile) {
  std::vector<pid_t> children;
  int results[2];
  REQUIRE(::pipe(results) == 0);
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int result = work();
      ::_exit(::write(results[1], &result, sizeof result) == sizeof result ? 0 : 1);
    }
    children.push_back(child);
  }
  meanwhile();
  ::close(results[1]);
  int sum = 0;
  for (const pid_t child : children) {
    int result = 0;
    CHECK(::read(results[0], &result, sizeof result) == sizeof result);
    sum += result;
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  ::close(results[0]);
  return sum;
}

template <class Work>
int in_processes(int count, const Work& work) {
  return in_processes(count, work, [] {});
}

}  // namespace

TEST_CASE("An outage of Redis is counted here, and one pause after it is back Redis is asked", "[inprocess]") {
  support::server server;
  ratelimit::redis store{asks_again_soon(server)};
  const manual_clock clock{w0};
  const auto limiter = local_log(store, clock, 0.25);
  for (std::int64_t i = 1; i <= 40; ++i) CHECK(limiter.check("client", "eu").used == i);

  server.kill();
  for (std::int64_t i = 1; i <= 25; ++i) {
    const decision d = limiter.check("client", "eu");
    CHECK(figures(d) == pass(i, 25 - i, 60s, 60s));
    CHECK(d.from == source::local);
    CHECK(d.error == errc::refused);
    CHECK(d.limit == 25);
    CHECK(d.counted());
    CHECK(d.limit_name == "recipe");
    CHECK(d.at == w0);
    CHECK(d.window == 60s);
  }
  const decision refused = limiter.check("client", "eu");
  CHECK(figures(refused) == deny(25, 0, 60s, 60s, 60s));
  CHECK(refused.from == source::local);
  CHECK(refused.error == errc::refused);
  CHECK(figures(limiter.check("client", "eu", 26)) == never(25, 0, 60s, 60s));
  CHECK(figures(limiter.peek("client", "eu")) == deny(25, 0, 60s, 60s, 60s));
  CHECK(figures(limiter.refund("client", "eu", 5)) == pass(20, 5, 60s, 60s));
  CHECK(figures(limiter.check("client", "eu", 5)) == pass(25, 0, 60s, 60s));
  CHECK(figures(limiter.check("other", "eu")) == pass(1, 24, 60s, 60s));

  // It comes back empty: nothing of the local counts is written to it.
  server.start();
  CHECK(server.command({"DBSIZE"}).number == 0);
  std::this_thread::sleep_for(probe_pause);
  const decision back = limiter.check("client", "eu");
  CHECK(back.from == source::redis);
  CHECK(back.error == std::error_code{});
  CHECK(back.limit == 100);
  CHECK(figures(back) == pass(1, 99, 60s, 60s));
  CHECK(server.command({"DBSIZE"}).number == 1);

  // A new outage starts from nothing.
  server.kill();
  CHECK(figures(limiter.check("client", "eu")) == pass(1, 24, 60s, 60s));
}

TEST_CASE("Redis is down at the start, and flaps", "[inprocess]") {
  support::server server;
  server.kill();
  ratelimit::redis store{server.url()};
  const auto limiter = local_log(store, manual_clock{w0}, 0.02);
  for (int i = 0; i < 5; ++i) {
    INFO("outage " << i);
    CHECK(figures(limiter.check("client")) == pass(1, 1, 60s, 60s));
    CHECK(figures(limiter.check("client")) == pass(2, 0, 60s, 60s));
    CHECK(limiter.check("client").from == source::local);
    server.start();
    const decision back = limiter.check("client");
    CHECK(back.from == source::redis);
    CHECK(figures(back) == pass(1, 99, 60s, 60s));
    server.kill();
  }
}

TEST_CASE("Local counts are kept while the outage lasts, and by the window", "[inprocess]") {
  failing_store store;
  manual_clock clock{w0};
  const auto limiter = local_log(store, clock, 0.5, 4);
  store.error = errc::timeout;
  CHECK(figures(limiter.check("client")) == pass(1, 1, 60s, 60s));
  clock.advance(30s);
  CHECK(figures(limiter.check("client")) == pass(2, 0, 30s, 60s));
  CHECK(figures(limiter.check("client")) == deny(2, 0, 30s, 30s, 60s));
  clock.advance(30s - 1us);
  CHECK(figures(limiter.check("client")) == deny(2, 0, 1us, 1us, 30s + 1us));
  clock.advance(1us);
  CHECK(figures(limiter.check("client")) == pass(2, 0, 30s, 60s));
  // An invalid call is none of the store's, and ends no outage.
  CHECK(limiter.check("").from == source::invalid);
  CHECK(figures(limiter.check("client")) == deny(2, 0, 30s, 30s, 60s));
  // Nor does a peek, or what the store says of another key.
  store.error = {};
  CHECK(figures(limiter.peek("client")) == untouched(4));
  CHECK(figures(limiter.check("other")) == pass(1, 3, 60s, 60s));
  store.error = errc::timeout;
  CHECK(figures(limiter.check("client")) == deny(2, 0, 30s, 30s, 60s));
  // A call that the store counts does; and a reset.
  store.error = {};
  CHECK(figures(limiter.check("client")) == pass(1, 3, 60s, 60s));
  store.error = errc::timeout;
  CHECK(figures(limiter.check("client", {}, 2)) == pass(2, 0, 60s, 60s));
  store.error = {};
  CHECK(limiter.reset("client") == std::error_code{});
  store.error = errc::timeout;
  CHECK(figures(limiter.check("client")) == pass(1, 1, 60s, 60s));
}

TEST_CASE("While only some calls are answered, a limit holds for those that are not", "[inprocess]") {
  failing_store store;
  const auto limiter = local_log(store, manual_clock{w0}, 1, 3);
  // Another identity's calls, some refused, and this one's that cost more than is left, are answered.
  for (int i = 0; i < 3; ++i) CHECK(limiter.check("other").from == source::memory);
  CHECK(limiter.check("client").from == source::memory);
  int admitted = 1;
  for (int i = 0; i < 20; ++i) {
    store.error = {};
    CHECK(figures(limiter.check("other")) == deny(3, 0, 60s, 60s, 60s));
    CHECK(figures(limiter.check("client", {}, 3)) == deny(1, 2, 60s, 60s, 60s));
    store.error = errc::timeout;
    admitted += limiter.check("client").allowed;
  }
  // The store's own, and this process' share.
  CHECK(admitted == 1 + 3);
}

TEST_CASE("Redis out of memory answers peeks and refusals, and admits no more than the share", "[inprocess]") {
  support::server server;
  ratelimit::redis store{server.url()};
  const auto limiter = local_log(store, manual_clock{w0}, 0.25, 12);
  for (int i = 0; i < 12; ++i) CHECK(limiter.check("exhausted").allowed);
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  int admitted = 0;
  for (int i = 0; i < 20; ++i) {
    CHECK(limiter.peek("client").from == source::redis);
    CHECK(figures(limiter.check("exhausted")) == deny(12, 0, 60s, 60s, 60s));
    const decision d = limiter.check("client");
    CHECK(d.from == source::local);
    CHECK(d.error == errc::out_of_memory);
    admitted += d.allowed;
  }
  CHECK(admitted == 3);
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(figures(limiter.check("client")) == pass(1, 11, 60s, 60s));
}

TEST_CASE("A limit of the call or of the region is shared out as well", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  const ratelimit::fixed_window limiter{store,
                                        {.name = "recipe",
                                         .limit = 100,
                                         .window = 60s,
                                         .on_failure = fail::local,
                                         .per_region = {{"us", 10}},
                                         .local_share = 0.25},
                                        manual_clock{w0}};
  CHECK(limiter.check("client", "eu").limit == 25);
  CHECK(limiter.check("client", "us").limit == 2);
  CHECK(limiter.check({.identity = "client", .region = "asia", .limit = 7}).limit == 1);
  // Less than one unit is none.
  const decision none = limiter.check({.identity = "client", .region = "africa", .limit = 3});
  CHECK(none.limit == 0);
  CHECK(figures(none) == never(0, 0, 0us, 0us));
}

TEST_CASE("A bucket's share is one of its capacity and of its refill", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  manual_clock clock{w0};
  const auto limiter = local_bucket(store, clock, 0.25);  // 25, and 2.5 a second
  const decision all = limiter.check("client", "eu", 25);
  CHECK(figures(all) == pass(25, 0, 400ms, 10s));
  CHECK(all.limit == 25);
  CHECK(all.window == 10s);
  CHECK(figures(limiter.check("client", "eu")) == deny(25, 0, 400ms, 400ms, 10s));
  clock.advance(400ms - 1us);
  CHECK(figures(limiter.check("client", "eu")) == deny(25, 0, 1us, 1us, 9'600ms + 1us));
  clock.advance(1us);
  CHECK(figures(limiter.check("client", "eu")) == pass(25, 0, 400ms, 10s));
  // In 60 s: the share of 600.
  int admitted = 0;
  for (int i = 0; i < 6000; ++i) {
    clock.advance(10ms);
    admitted += limiter.check("client", "eu").allowed;
  }
  CHECK(admitted == 150);
}

TEST_CASE("A bucket's share that is no whole part of it", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  const auto limiter = local_bucket(store, manual_clock{w0}, 0.3);  // 30, and 3 a second
  const decision all = limiter.check("client", "eu", 30);
  CHECK(figures(all) == pass(30, 0, 333'334us, 10s));
  CHECK(all.limit == 30);
  CHECK(all.window == 10s);
}

TEST_CASE("Four processes with a quarter each admit no more than the limit", "[inprocess]") {
  support::server server;
  server.kill();
  const auto hammer = [&](auto make) {
    ratelimit::redis store{server.url()};
    const auto limiter = make(store);
    int admitted = 0;
    for (int i = 0; i < 200; ++i) admitted += limiter.check("client", "eu").allowed;
    return admitted;
  };
  const manual_clock clock{w0};
  CHECK(in_processes(4, [&] { return hammer([&](auto& s) { return local_log(s, clock, 0.25); }); }) == 100);
  CHECK(in_processes(4, [&] { return hammer([&](auto& s) { return local_bucket(s, clock, 0.25); }); }) == 100);
  CHECK(in_processes(4, [&] {
          return hammer([&](auto& s) {
            return ratelimit::sliding_counter{
                s,
                {.name = "recipe", .limit = 100, .window = 60s, .on_failure = fail::local, .local_share = 0.25},
                clock};
          });
        }) == 100);
  CHECK(in_processes(4, [&] {
          return hammer([&](auto& s) {
            return ratelimit::fixed_window{
                s,
                {.name = "recipe", .limit = 100, .window = 60s, .on_failure = fail::local, .local_share = 0.25},
                clock};
          });
        }) == 100);
  // By the real clock, within one window.
  CHECK(in_processes(
            4, [&] { return hammer([&](auto& s) { return local_log(s, ratelimit::server_clock{}, 0.25); }); }) == 100);
  // Without a share each process admits all of it.
  CHECK(in_processes(4, [&] { return hammer([&](auto& s) { return local_log(s, clock, 1); }); }) == 400);
}

TEST_CASE("Four processes return to Redis within one pause", "[inprocess]") {
  support::server server;
  server.kill();
  int go[2];
  int down[2];
  REQUIRE(::pipe(go) == 0);
  REQUIRE(::pipe(down) == 0);
  const auto process = [&] {
    ratelimit::redis store{asks_again_soon(server)};
    const auto limiter = local_log(store, manual_clock{w0}, 0.25);
    int wrong = 0;
    for (int i = 0; i < 25; ++i) wrong += limiter.check("client").from != source::local;
    wrong += limiter.check("client").allowed;
    char one = 0;
    if (::write(down[1], "d", 1) != 1 || ::read(go[0], &one, 1) != 1) return -1000;
    std::this_thread::sleep_for(probe_pause);
    int passed = 0;
    for (int i = 0; i < 50; ++i) {
      const decision d = limiter.check("client");
      wrong += d.from != source::redis;
      passed += d.allowed;
    }
    return wrong == 0 ? passed : -1000;
  };
  const auto restart = [&] {
    char all[4];
    for (char& one : all) CHECK(::read(down[0], &one, 1) == 1);
    server.start();
    CHECK(::write(go[1], all, sizeof all) == sizeof all);
  };
  CHECK(in_processes(4, process, restart) == 100);
  for (const int fd : {go[0], go[1], down[0], down[1]}) ::close(fd);
}

TEST_CASE("1,000,000 identities in an outage keep the memory flat", "[inprocess]") {
  failing_store store;
  store.error = errc::timeout;
  const auto limiter = local_log(store, manual_clock{w0}, 1);
  const auto flood = [&](int from, int to) {
    for (int i = from; i < to; ++i) limiter.check("client" + std::to_string(i), "eu");
  };
  flood(0, 200'000);
  const std::ptrdiff_t before = support::bytes_in_use();
  flood(200'000, 1'000'000);
  CHECK(support::bytes_in_use() - before <= 1'000'000);
  CHECK(before < 60'000'000);
}
