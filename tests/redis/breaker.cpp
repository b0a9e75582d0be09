// The circuit breaker: its states with a clock of the test's, and on a server that is not there.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <ratelimit/redis/breaker.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/fake_server.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::breaker_state;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;
using ratelimit::detail::breaker;
using support::bytes;
using support::fake_server;
using support::words;

// A breaker and its time.
struct bench {
  breaker one{{.failures = 3, .first_pause = 100ms, .longest_pause = 1s}, 1};
  breaker::time_point now{1h};

  breaker::entry enter() {
    return one.enter([this] { return now; });
  }
  bool fail_once(errc why = errc::timeout) { return one.failed(enter(), why, now); }
  // Lets time pass in steps of 1 ms, until somebody may ask again.
  breaker::entry enter_after_pause(std::chrono::milliseconds& waited) {
    for (waited = 0ms;; now += 1ms, waited += 1ms)
      if (const breaker::entry in = enter(); !in.refused) return in;
  }
};

// What was heard of a store's breaker.
struct changes {
  std::mutex mutex{};
  std::vector<std::pair<breaker_state, std::error_code>> all{};
  std::set<std::string> addresses{};

  ratelimit::observer observer() {
    return {.breaker = [this](const ratelimit::breaker_change& c) {
      const std::lock_guard lock{mutex};
      all.emplace_back(c.state, c.error);
      addresses.emplace(c.address);
    }};
  }
  std::size_t count(breaker_state state) {
    const std::lock_guard lock{mutex};
    std::size_t n = 0;
    for (const auto& [to, error] : all) n += to == state;
    return n;
  }
};

ratelimit::fixed_window<ratelimit::redis> daily(ratelimit::redis& store, std::chrono::microseconds deadline = 60s) {
  return {store, {.name = "t", .limit = 1'000'000, .window = 24h, .on_failure = fail::open, .deadline = deadline}};
}

}  // namespace

TEST_CASE("breaker: opens after so many failures in a row, and no fewer") {
  bench b;
  CHECK_FALSE(b.fail_once());
  CHECK_FALSE(b.fail_once());
  CHECK_FALSE(b.one.succeeded());
  CHECK_FALSE(b.fail_once());
  CHECK_FALSE(b.fail_once(errc::closed));
  CHECK(b.one.state() == breaker_state::closed);
  CHECK_FALSE(b.enter().refused);
  CHECK(b.fail_once(errc::refused));
  CHECK(b.one.state() == breaker_state::open);
  CHECK(b.enter().refused == errc::refused);
}

TEST_CASE("breaker: failures that overlap are one") {
  bench b;
  std::vector<breaker::entry> together;
  for (int i = 0; i < 100; ++i) together.push_back(b.enter());
  for (const auto& in : together) CHECK_FALSE(b.one.failed(in, errc::timeout, b.now));
  CHECK(b.one.state() == breaker_state::closed);
  CHECK_FALSE(b.fail_once());
  CHECK(b.fail_once());
}

TEST_CASE("breaker: one probe at a time, and pauses that double up to the longest") {
  bench b;
  for (int i = 0; i < 3; ++i) b.fail_once();
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    std::chrono::milliseconds waited{};
    const auto probe = b.enter_after_pause(waited);
    CAPTURE(pause.count(), waited.count());
    CHECK(waited >= pause / 2);
    CHECK(waited <= pause);
    CHECK(probe.probe);
    CHECK(b.one.state() == breaker_state::half_open);
    for (int i = 0; i < 10; ++i) CHECK(b.enter().refused == errc::timeout);
    CHECK(b.one.failed(probe, errc::timeout, b.now));
    CHECK(b.one.state() == breaker_state::open);
  }
  std::chrono::milliseconds waited{};
  b.enter_after_pause(waited);
  CHECK(b.one.succeeded());
  CHECK(b.one.state() == breaker_state::closed);
  CHECK_FALSE(b.one.succeeded());
  // From the beginning.
  for (int i = 0; i < 2; ++i) CHECK_FALSE(b.fail_once());
  CHECK(b.fail_once());
  b.enter_after_pause(waited);
  CHECK(waited <= 100ms);
}

TEST_CASE("breaker: the pauses of two clients differ") {
  std::set<std::chrono::milliseconds> seen;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    bench b{.one{{.failures = 1, .first_pause = 1s, .longest_pause = 1s}, seed * 7919}};
    b.fail_once();
    std::chrono::milliseconds waited{};
    b.enter_after_pause(waited);
    seen.insert(waited);
  }
  CHECK(seen.size() >= 15);
}

TEST_CASE("breaker: a probe that hangs is followed by another, and its late failure changes nothing") {
  bench b;
  for (int i = 0; i < 3; ++i) b.fail_once();
  std::chrono::milliseconds waited{};
  const auto hangs = b.enter_after_pause(waited);
  const auto next = b.enter_after_pause(waited);
  CHECK(waited == 1s);
  CHECK_FALSE(next.probe);  // no change of state
  CHECK_FALSE(b.one.failed(hangs, errc::timeout, b.now));
  CHECK(b.one.state() == breaker_state::half_open);
  CHECK(b.one.failed(next, errc::timeout, b.now));
}

TEST_CASE("breaker: a failure of before it opened does not open it anew, and any answer closes it") {
  bench b;
  const auto before = b.enter();
  for (int i = 0; i < 3; ++i) b.fail_once();
  CHECK_FALSE(b.one.failed(before, errc::closed, b.now));
  CHECK(b.enter().refused == errc::timeout);
  CHECK(b.one.succeeded());
  CHECK_FALSE(b.enter().refused);
}

TEST_CASE("a server that is away: few dials, one report for each change, and back within a pause") {
  support::server redis{{.tcp = true}};
  changes heard;
  ratelimit::redis_options to{.port = redis.port(), .client_name = "ours", .connections = 4};
  to.observer = heard.observer();
  ratelimit::redis store{to};
  const auto limiter = daily(store);
  CHECK(limiter.check("a").used == 1);
  redis.kill();
  for (int i = 0; i < 5; ++i) CHECK(limiter.check("a").error == errc::refused);
  CHECK(heard.all == std::vector<std::pair<breaker_state, std::error_code>>{{breaker_state::open, errc::refused}});
  CHECK(heard.addresses == std::set<std::string>{"127.0.0.1:" + std::to_string(redis.port())});
  for (int i = 0; i < 100'000; ++i) {
    const auto d = limiter.check("a");
    if (d.error != errc::refused || d.from != source::failed_open || d.counted()) FAIL("check " << i);
  }
  // However long those took: each probe was reported, and each that failed.
  CHECK(heard.count(breaker_state::closed) == 0);
  CHECK(heard.count(breaker_state::open) == 1 + heard.count(breaker_state::half_open));
  CHECK(heard.count(breaker_state::open) <= 20);

  redis.start();
  support::wait_until([&] { return limiter.check("a").from == source::redis; });
  CHECK(heard.all.back() == std::pair<breaker_state, std::error_code>{breaker_state::closed, {}});
  for (int i = 2; i <= 100; ++i) CHECK(limiter.check("a").used == i);
  CHECK(heard.count(breaker_state::closed) == 1);
  CHECK(redis.info("total_connections_received") <= 1 + 4);
}

// 200 threads that never pause, on a listener that turns everybody away: each connection accepted is one dial.
TEST_CASE("a server that turns everybody away is not dialled in a storm") {
  std::atomic<bool> ill{true};
  fake_server server{[&](const words& said) -> bytes {
    if (ill) return {"-ERR max number of clients reached\r\n", true};
    return said.front() == "EVALSHA" ? "*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:1\r\n" : "+OK\r\n";
  }};
  changes heard;
  ratelimit::redis_options to{.unix_path = server.socket_path(), .client_name = "ours", .connections = 4};
  to.observer = heard.observer();
  ratelimit::redis store{to};
  const auto limiter = daily(store);
  std::atomic<bool> done{false};
  std::atomic<long> wrong{0}, refused{0}, counted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const auto d = limiter.check("a");
        if (d.counted()) {
          ++counted;
        } else {
          ++(d.error == errc::too_many_clients && d.from == source::failed_open ? refused : wrong);
        }
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  std::this_thread::sleep_for(2s);
  // The dials that opened it, some on each connection, and one for each probe: 100, 200, 400 ... ms after another.
  const auto dials = server.connections();
  CHECK(dials <= 40);
  CHECK(counted == 0);
  CHECK(refused >= 200);
  ill = false;
  support::wait_until([&] { return counted > 1000; });
  done = true;
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(server.connections() <= dials + 10);
  CHECK(heard.all.back() == std::pair<breaker_state, std::error_code>{breaker_state::closed, {}});
}

TEST_CASE("an answer of a live server is none of the breaker's business, whatever it says") {
  for (const char* const text : {"-OOM no memory\r\n", "-READONLY a replica\r\n", "-NOSCRIPT none\r\n",
                                 "-BUSY a script\r\n", "-NOPERM no\r\n", "-ERR something\r\n"}) {
    fake_server server{[&](const words&) -> bytes { return text; }};
    changes heard;
    ratelimit::redis_options to{.unix_path = server.socket_path(), .failures = 1};
    to.observer = heard.observer();
    ratelimit::redis store{to};
    for (int i = 0; i < 5; ++i) CHECK_FALSE(daily(store).check("a").counted());
    CHECK(heard.all.empty());
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("an observer may ask the same store, and may throw") {
  support::server redis;
  redis.stop();
  std::atomic<int> heard{0};
  ratelimit::redis* asked = nullptr;
  ratelimit::redis_options to{.unix_path = redis.socket_path(), .connections = 1, .failures = 1};
  to.observer.breaker = [&](const ratelimit::breaker_change& c) {
    ++heard;
    const auto d = daily(*asked).check("from the observer");
    CHECK(d.counted() == (c.state == breaker_state::closed));
    throw 1;
  };
  ratelimit::redis store{to};
  asked = &store;
  CHECK(daily(store).check("a").error == errc::refused);
  CHECK(heard == 1);
  redis.start();
  support::wait_until([&] { return daily(store).check("a").counted(); });
  CHECK(daily(store).peek("from the observer").used == 1);
}

TEST_CASE("a store that is destroyed tells nothing more, whatever its breaker was in") {
  changes heard;
  {
    ratelimit::redis_options to{.unix_path = "/nonexistent/redis.sock", .failures = 1};
    to.observer = heard.observer();
    ratelimit::redis store{to};
    CHECK(daily(store).check("a").error == errc::refused);
  }
  CHECK(heard.all == std::vector<std::pair<breaker_state, std::error_code>>{{breaker_state::open, errc::refused}});
}

TEST_CASE("a forked child's breaker is its own, and its observer hears so") {
  changes heard;
  ratelimit::redis_options to{.unix_path = "/nonexistent/redis.sock", .failures = 1};
  to.observer = heard.observer();
  ratelimit::redis store{to};
  CHECK(daily(store).check("a").error == errc::refused);
  const std::vector<std::pair<breaker_state, std::error_code>> parents{{breaker_state::open, errc::refused}};
  CHECK(heard.all == parents);
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto all = parents;
    all.insert(all.end(), {{breaker_state::closed, {}}, {breaker_state::open, errc::refused}});
    ::_exit(daily(store).check("a").error == errc::refused && heard.all == all ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
  CHECK(heard.all == parents);
}

TEST_CASE("the address in a breaker's changes") {
  const auto address = [](const std::string& url) {
    return ratelimit::detail::address_of(ratelimit::parse_redis_url(url));
  };
  CHECK(address("redis://user:secret@redis.example.com:6380/3") == "redis.example.com:6380");
  CHECK(address("redis://[2001:db8::1]") == "[2001:db8::1]:6379");
  CHECK(address("unix://:secret@/run/redis.sock?db=2") == "/run/redis.sock");
}
