// One store among threads, and between a parent and its children.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/metrics.hpp>
#include <ratelimit/redis.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::manual_clock;
using ratelimit::source;
using support::server;

static_assert(ratelimit::store<ratelimit::redis>);
static_assert(!std::is_copy_constructible_v<ratelimit::redis>);

const manual_clock clock_at{ratelimit::time_point{1'700'000'040s}};

using window = ratelimit::fixed_window<ratelimit::redis, manual_clock>;

window daily(ratelimit::redis& store, std::int64_t limit, std::chrono::microseconds deadline = 60s) {
  return {
      store, {.name = "t", .limit = limit, .window = 24h, .on_failure = fail::closed, .deadline = deadline}, clock_at};
}

ratelimit::redis_options options(const server& redis, int connections) {
  return {.unix_path = redis.socket_path(), .connections = connections};
}

template <class Work>
void on_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
}

long open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

// True when `count` checks of this identity, and no others, were counted: remaining goes down one by one.
bool series_is_own(const window& limiter, const std::string& who, int count) {
  for (int i = 1; i <= count; ++i) {
    const auto d = limiter.check(who);
    if (d.from != source::redis || !d.allowed || d.remaining != d.limit - i) return false;
  }
  return true;
}

// A child that runs `work`; its exit status is 0 when that gave true.
template <class Work>
pid_t child(bool runs_destructors, Work work) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int status = work() ? 0 : 1;
  if (runs_destructors) std::exit(status);
  ::_exit(status);
}

int status_of(pid_t pid) {
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

// Asks something of the store it is itself asked for.
struct asking_clock {
  window inner;
  std::optional<ratelimit::time_point> now() const {
    inner.check("the clock");
    return clock_at.now();
  }
};

struct throwing_clock {
  std::shared_ptr<bool> throws;
  std::optional<ratelimit::time_point> now() const {
    if (*throws) throw std::runtime_error{"the clock stopped"};
    return clock_at.now();
  }
};

}  // namespace

TEST_CASE("16 threads on 4 connections are counted to the unit") {
  server redis;
  ratelimit::redis store{options(redis, 4)};
  const auto limiter = daily(store, 100'000);
  std::atomic<int> allowed{0}, denied{0}, wrong{0};
  on_threads(16, [&](int) {
    for (int i = 0; i < 10'000; ++i) {
      const auto d = limiter.check("everybody");
      if (d.from != source::redis) ++wrong;
      ++(d.allowed ? allowed : denied);
    }
  });
  CHECK(wrong == 0);
  CHECK(allowed == 100'000);
  CHECK(denied == 60'000);
  CHECK(redis.info("total_connections_received") <= 1 + 4);  // the observer's and ours
}

TEST_CASE("no answer goes to another thread") {
  server redis;
  ratelimit::redis store{options(redis, 2)};
  const auto limiter = daily(store, 1000);
  std::atomic<int> wrong{0};
  on_threads(8, [&](int i) {
    if (!series_is_own(limiter, "thread " + std::to_string(i), 1000)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("stores and limiters are built, used and destroyed on many threads at once") {
  server redis;
  ratelimit::redis shared{options(redis, 2)};
  const auto before = open_descriptors();
  std::atomic<int> wrong{0};
  on_threads(8, [&](int i) {
    for (int round = 0; round < 20; ++round) {
      ratelimit::redis own{options(redis, 1)};
      const auto who = std::to_string(i) + ":" + std::to_string(round);
      if (!series_is_own(daily(own, 1000 + round), "own " + who, 5)) ++wrong;
      if (!series_is_own(daily(shared, 1000 + round), "shared " + who, 5)) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(open_descriptors() <= before + 2);
}

TEST_CASE("more threads than connections wait within their deadline, and no connection too many is opened") {
  server redis;
  // On a slow machine the threads come one after another, and so do their failures.
  ratelimit::redis store{{.unix_path = redis.socket_path(), .connections = 2, .failures = 1'000'000}};
  CHECK(daily(store, 1'000'000).check("warm").allowed);
  const auto limiter = daily(store, 1'000'000, 150ms);
  const auto before = open_descriptors() - 1;  // without the one connection there is
  redis.command({"CLIENT", "PAUSE", "60000", "WRITE"});
  std::atomic<int> timeouts{0}, others{0}, running{64};
  long most = 0;
  std::thread watch{[&] {
    while (running > 0) most = std::max(most, open_descriptors() - before - 1);  // without the directory it reads
  }};
  on_threads(64, [&](int) {
    const auto d = limiter.check("everybody");
    ++(d.error == errc::timeout && d.from == source::failed_closed && !d.allowed ? timeouts : others);
    --running;
  });
  watch.join();
  CHECK(timeouts == 64);
  CHECK(others == 0);
  CHECK(most <= 2);
  redis.command({"CLIENT", "UNPAUSE"});
  CHECK(series_is_own(daily(store, 1000), "afterwards", 1000));
}

TEST_CASE("a clock that asks the same store, or throws, holds no connection meanwhile") {
  server redis;
  ratelimit::redis store{options(redis, 1)};
  const ratelimit::fixed_window outer{
      store,
      {.name = "outer", .limit = 1000, .window = 24h, .on_failure = fail::closed, .deadline = 5s},
      asking_clock{daily(store, 1000)}};
  CHECK(outer.check("a").used == 1);
  CHECK(outer.check("a").used == 2);
  CHECK(daily(store, 1000).peek("the clock").used == 2);

  const auto throws = std::make_shared<bool>(true);
  const ratelimit::fixed_window thrown{
      store,
      {.name = "thrown", .limit = 1000, .window = 24h, .on_failure = fail::closed, .deadline = 5s},
      throwing_clock{throws}};
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(thrown.check("a"), std::runtime_error);
  *throws = false;
  CHECK(thrown.check("a").used == 1);
}

TEST_CASE("a forked child dials its own connections and leaves its parent's alone") {
  server redis;
  auto store = std::make_unique<ratelimit::redis>(options(redis, 2));
  const auto limiter = daily(*store, 1001);
  REQUIRE(limiter.check("parent").used == 1);
  const auto dialled = redis.info("total_connections_received");

  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(child(i % 2 == 0, [&] {
      const bool own = series_is_own(limiter, "child " + std::to_string(i), 1000);
      if (i < 3) store.reset();
      return own;
    }));
  }
  int wrong = 0;
  for (int i = 2; i <= 1001; ++i) {
    const auto d = limiter.check("parent");
    if (d.from != source::redis || d.used != i) ++wrong;
  }
  CHECK(wrong == 0);
  for (const pid_t pid : children) CHECK(status_of(pid) == 0);
  CHECK(limiter.peek("parent").used == 1001);
  CHECK(redis.info("total_connections_received") == dialled + 4);
}

TEST_CASE("a child that never asks closes its copies with the store") {
  server redis;
  auto store = std::make_unique<ratelimit::redis>(options(redis, 2));
  const auto limiter = daily(*store, 1000);
  REQUIRE(limiter.check("a").used == 1);
  const auto dialled = redis.info("total_connections_received");
  const auto before = open_descriptors();
  CHECK(status_of(child(true, [&] {
          store.reset();
          return open_descriptors() == before - 1;
        })) == 0);
  CHECK(limiter.check("a").used == 2);
  CHECK(redis.info("total_connections_received") == dialled);
}

TEST_CASE("a fork in the middle of other threads' checks") {
  server redis;
  ratelimit::redis store{options(redis, 2)};
  const auto limiter = daily(store, 1'000'000);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back([&, who = "busy " + std::to_string(i)] {
      for (int n = 1; !done; ++n) {
        const auto d = limiter.check(who);
        if (d.from != source::redis || d.used != n) ++wrong;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    CHECK(status_of(child(false, [&] { return series_is_own(limiter, "child " + std::to_string(i), 20); })) == 0);
  }
  done = true;
  for (auto& thread : busy) thread.join();
  CHECK(wrong == 0);
}

// Nor does it wait for what other threads of its parent had locked: the cache of refusals, the counts that stand in for
// Redis, the figures for metrics.
TEST_CASE("a fork in the middle of other threads' refusals, local counts and metrics") {
  server redis;
  const ratelimit::metrics figures;
  ratelimit::redis store{options(redis, 2)};
  ratelimit::redis nowhere{ratelimit::redis_options{.unix_path = "/nonexistent/redis.sock"}};
  const ratelimit::fixed_window refusing{store,
                                         {.name = "refusing",
                                          .limit = 1,
                                          .window = 24h,
                                          .on_failure = fail::closed,
                                          .deadline = 60s,
                                          .deny_cache = 10,
                                          .observer = figures}};
  const ratelimit::fixed_window local{
      nowhere,
      {.name = "local", .limit = 1'000'000'000, .window = 24h, .on_failure = fail::local, .observer = figures}};
  CHECK(refusing.check("everybody").used == 1);
  const auto as_always = [&] {
    const auto d = refusing.check("everybody");
    return !d.allowed && d.used == 1 && local.check("everybody").from == source::local;
  };
  CHECK(as_always());
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i)
    busy.emplace_back([&] {
      while (!done) wrong += !as_always() || figures.text().empty();
    });
  for (int i = 0; i < 50; ++i)
    CHECK(status_of(child(false, [&] { return as_always() && !figures.text().empty(); })) == 0);
  done = true;
  for (auto& thread : busy) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a grandchild is a child too") {
  server redis;
  ratelimit::redis store{options(redis, 2)};
  const auto limiter = daily(store, 1000);
  CHECK(limiter.check("a").used == 1);
  CHECK(status_of(child(false, [&] {
          if (!series_is_own(limiter, "child", 10)) return false;
          const pid_t grandchild = child(false, [&] { return series_is_own(limiter, "grandchild", 10); });
          return status_of(grandchild) == 0 && limiter.check("child").used == 11;
        })) == 0);
  CHECK(limiter.check("a").used == 2);
}

TEST_CASE("a program that is started inherits no connection") {
  server redis;
  const auto descriptors_of_a_program = [] {
    std::FILE* const out = ::popen("ls /proc/self/fd | wc -l", "r");
    int count = -1;
    if (out == nullptr || std::fscanf(out, "%d", &count) != 1) count = -1;
    ::pclose(out);
    return count;
  };
  const int without = descriptors_of_a_program();
  REQUIRE(without > 0);
  ratelimit::redis store{options(redis, 2)};
  CHECK(daily(store, 1000).check("a").used == 1);
  CHECK(descriptors_of_a_program() == without);
}
