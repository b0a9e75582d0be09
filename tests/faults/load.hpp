// Threads that check without end, and know of each answer whether it can be theirs.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace faults {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;
using support::server;

using window = ratelimit::fixed_window<ratelimit::redis>;
using clock = std::chrono::steady_clock;

inline constexpr std::int64_t limit = 1'000'000'000;
inline constexpr auto deadline = 25ms;
inline constexpr auto tolerance = 10ms;

inline long open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

// Every thread counts one identity, from a number of its own on, by the server's time. So an answer that is another
// thread's shows by its number, one to an earlier call by its time, and a lost or double count by what is in Redis.
class load {
 public:
  // `unharmed` reaches the server whatever the fault.
  load(const ratelimit::redis_options& to, ratelimit::redis& unharmed, int threads = 8) : store_{to} {
    for (int i = 1; i <= threads; ++i) {
      caller& one = callers_.emplace_back(i);
      REQUIRE(limiter(unharmed, 60s).check(one.who, {}, one.base).used == one.base);
    }
    for (caller& one : callers_) one.thread = std::thread{[this, &one] { call(one); }};
  }
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load() { stop(); }

  // Waits until each thread has had so many more answers of the server. Returns how long that took.
  std::chrono::milliseconds wait_for_answers(long more) {
    const auto from = clock::now();
    std::vector<long> before;
    for (const caller& one : callers_) before.push_back(one.counted);
    for (std::size_t i = 0; i < callers_.size(); ++i)
      support::wait_until([&] { return callers_[i].counted >= before[i] + more; });
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - from);
  }
  // Waits until each thread has had at least one error.
  void wait_for_errors() {
    std::vector<long> before;
    for (const caller& one : callers_) before.push_back(one.failed);
    for (std::size_t i = 0; i < callers_.size(); ++i)
      support::wait_until([&] { return callers_[i].failed > before[i]; });
  }

  void stop() {
    stopping_ = true;
    for (caller& one : callers_)
      if (one.thread.joinable()) one.thread.join();
  }

  // After stop().
  struct tally {
    long checks = 0;
    long in_time = 0;  // back within the deadline and the tolerance
    long failed = 0;
    long wrong = 0;    // answers of another call's, or that cannot be
    long doubled = 0;  // units in Redis that no call can have taken, or that are missing there
    clock::duration longest{};
    std::vector<std::error_code> errors{};  // each kind once
  };
  tally sum(ratelimit::redis& unharmed) const {
    tally all;
    for (const caller& one : callers_) {
      all.checks += one.checks;
      all.in_time += one.in_time;
      all.failed += one.failed;
      all.wrong += one.wrong;
      all.longest = std::max(all.longest, one.longest);
      for (const std::error_code error : one.errors)
        if (std::find(all.errors.begin(), all.errors.end(), error) == all.errors.end()) all.errors.push_back(error);
      const auto d = limiter(unharmed, 60s).peek(one.who);
      REQUIRE(d.counted());
      const std::int64_t taken = d.used - one.base;
      if (taken < one.counted) all.doubled += one.counted - taken;
      if (taken > one.counted + one.unknown) all.doubled += taken - one.counted - one.unknown;
    }
    return all;
  }

 private:
  struct caller {
    explicit caller(int i) : who{"caller " + std::to_string(i)}, base{i * std::int64_t{10'000'000}} {}

    std::string who;
    std::int64_t base;
    std::thread thread{};
    std::atomic<long> counted{0}, failed{0};
    long checks = 0, in_time = 0, wrong = 0;
    long unknown = 0;  // calls of which nobody knows whether they were counted
    clock::duration longest{};
    std::vector<std::error_code> errors{};
  };

  // So long a window that none ends while a test runs.
  static window limiter(ratelimit::redis& store, std::chrono::microseconds patience) {
    return {store, {.name = "t", .limit = limit, .window = 24h * 3650, .on_failure = fail::open, .deadline = patience}};
  }

  void call(caller& own) {
    const window limit_of_mine = limiter(store_, deadline);
    std::int64_t last = own.base;
    while (!stopping_) {
      const auto since = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
      const auto from = clock::now();
      const auto d = limit_of_mine.check(own.who);
      const auto took = clock::now() - from;
      ++own.checks;
      own.in_time += took <= deadline + tolerance;
      own.longest = std::max(own.longest, took);
      if (d.counted()) {
        const bool own_answer = d.from == source::redis && !d.error && d.allowed && d.at >= since && d.used > last &&
                                d.used <= own.base + own.counted + own.unknown + 1 && d.remaining == limit - d.used;
        if (!own_answer) ++own.wrong;
        last = d.used;
        ++own.counted;
      } else {
        if (!d.error || !d.allowed || d.from != source::failed_open || d.used != 0) ++own.wrong;
        // Any other error says that the call was not run.
        if (d.error == errc::timeout || d.error == errc::closed || d.error == errc::protocol) ++own.unknown;
        if (std::find(own.errors.begin(), own.errors.end(), d.error) == own.errors.end()) own.errors.push_back(d.error);
        ++own.failed;
      }
      std::this_thread::sleep_for(500us);
    }
  }

  ratelimit::redis store_;
  std::atomic<bool> stopping_{false};
  std::deque<caller> callers_{};
};

// Puts the row of one fault into the table that tests/run prints, and into the test's own output.
inline void report(std::string_view fault, const load::tally& t, long leaked, std::chrono::milliseconds recovery) {
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(t.longest).count();
  char row[256];
  std::snprintf(row, sizeof row, "%-46.*s %7ld %7ld %7ld %8.2f %6ld %7ld %7ld %8lld\n", static_cast<int>(fault.size()),
                fault.data(), t.checks, t.failed, t.in_time, static_cast<double>(longest) / 1000, t.wrong, t.doubled,
                leaked, static_cast<long long>(recovery.count()));
  std::fputs(row, stdout);
  if (const char* const path = std::getenv("RATELIMIT_FAULT_TABLE")) {
    std::FILE* const table = std::fopen(path, "a");
    REQUIRE(table != nullptr);
    std::fputs(row, table);
    std::fclose(table);
  }
}

// Load, `fault` in the middle of it (which ends what it began), and what came of it.
// `each`: the descriptors that one connection may take in this process, a proxy's among them.
template <class Fault>
load::tally under_load(std::string_view name, server& redis, const ratelimit::redis_options& to, const Fault& fault,
                       int each = 1) {
  ratelimit::redis unharmed{redis.url()};
  redis.command({"PING"});
  load::tally t;
  std::chrono::milliseconds recovery{};
  long before = 0;
  {
    before = open_descriptors() + 1;  // and the unharmed one
    load traffic{to, unharmed};
    traffic.wait_for_answers(20);
    fault(traffic);
    recovery = traffic.wait_for_answers(1);
    traffic.wait_for_answers(20);
    traffic.stop();
    CHECK(open_descriptors() <= before + each * to.connections);
    t = traffic.sum(unharmed);
  }
  redis.command({"PING"});
  for (int i = 0; i < 1000 && open_descriptors() > before; ++i) std::this_thread::sleep_for(5ms);  // the proxy's
  const long leaked = open_descriptors() - before;
  report(name, t, leaked, recovery);
  CHECK(t.checks > 0);
  CHECK(t.wrong == 0);
  CHECK(t.doubled == 0);
  CHECK(leaked == 0);
  return t;
}

inline bool only(const load::tally& seen, std::initializer_list<errc> expected) {
  return std::all_of(seen.errors.begin(), seen.errors.end(), [&](std::error_code error) {
    return std::any_of(expected.begin(), expected.end(), [&](errc one) { return error == one; });
  });
}
inline bool has(const load::tally& seen, errc one) {
  return std::any_of(seen.errors.begin(), seen.errors.end(), [&](std::error_code error) { return error == one; });
}

inline ratelimit::redis_options options(const server& redis) {
  return {.unix_path = redis.socket_path(), .connections = 4};
}

// How long a fault lasts that is not over at once.
inline void a_while() {
  std::this_thread::sleep_for(500ms);
}

}  // namespace faults
