// Checks from many threads while something happens to the servers, with an account of what became of each.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <ratelimit/decision.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "limits.hpp"

namespace clusters {

inline long open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

// Whether the servers may forget what they have acknowledged: a replica that takes over has not always heard all.
enum class memory : bool { exact, may_lose };

struct account {
  long checks = 0;
  long in_time = 0;  // back within the deadline and 10 ms
  long counted = 0;
  long maybe = 0;    // timeouts and lost answers: counted or not
  long refused = 0;  // certainly not counted
  long wrong = 0;    // answers that no sequence of events explains
  long doubled = 0;  // more was counted than was asked for
  std::chrono::steady_clock::duration longest{};
  std::map<std::string, long> errors{};
  std::chrono::milliseconds recovered{};  // from fault() to recovered()
  long leaked = 0;                        // descriptors: for the test to fill in

  // Puts a row into the table of faults that tests/run prints, in the columns of tests/faults/load.hpp, and into the
  // test's own output, where the kinds of errors follow.
  void report(const char* fault) const {
    char row[256];
    std::snprintf(row, sizeof row, "%-46s %7ld %7ld %7ld %8.2f %6ld %7ld %7ld %8lld\n", fault, checks, maybe + refused,
                  in_time, std::chrono::duration<double, std::milli>{longest}.count(), wrong, doubled, leaked,
                  static_cast<long long>(recovered.count()));
    std::fputs(row, stdout);
    for (const auto& [error, times] : errors) std::printf("  %s: %ld\n", error.c_str(), times);
    if (const char* const path = std::getenv("RATELIMIT_FAULT_TABLE")) {
      std::FILE* const table = std::fopen(path, "a");
      REQUIRE(table != nullptr);
      std::fputs(row, table);
      std::fclose(table);
    }
  }
};

// `ask(identity, number)` makes one check of `identity`, of one unit of a limit that is never reached, and returns the
// decision; each identity belongs to one thread, so that what it may have used is known.
template <class Ask>
class load {
 public:
  load(std::vector<std::string> identities, int threads, std::chrono::microseconds deadline, memory servers, Ask ask)
      : deadline_{deadline}, servers_{servers}, ask_{std::move(ask)} {
    for (int t = 0; t < threads; ++t) {
      std::vector<std::string> own;
      for (std::size_t i = static_cast<std::size_t>(t); i < identities.size(); i += static_cast<std::size_t>(threads))
        own.push_back(identities[i]);
      threads_.emplace_back([this, mine = std::move(own)] { run(mine); });
    }
  }
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  ~load() { stop(); }

  // The two ends of what a row calls the time to recover.
  void fault() { fault_ = std::chrono::steady_clock::now(); }
  void recovered() {
    total_.recovered = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - fault_);
  }
  long counted_so_far() const { return counted_; }
  long checks_so_far() const { return checks_; }

  account stop() {
    stopping_ = true;
    for (auto& one : threads_) one.join();
    threads_.clear();
    return total_;
  }

 private:
  void run(const std::vector<std::string>& identities) {
    account own;
    std::map<std::string, std::pair<long, long>> known;  // counted, maybe
    for (long n = 0; !stopping_; ++n) {
      const std::string& identity = identities[static_cast<std::size_t>(n) % identities.size()];
      auto& [counted, maybe] = known[identity];
      const auto started = std::chrono::steady_clock::now();
      const ratelimit::decision d = ask_(identity, n);
      const auto took = std::chrono::steady_clock::now() - started;
      std::this_thread::sleep_for(500us);
      ++own.checks;
      ++checks_;
      own.longest = std::max(own.longest, took);
      if (took <= deadline_ + 10ms) ++own.in_time;
      if (!d.counted()) {
        ++own.errors[d.error.message().substr(0, d.error.message().find(':'))];
        if (d.error == errc::timeout || d.error == errc::closed) {
          ++own.maybe;
          ++maybe;
        } else {
          ++own.refused;
        }
        continue;
      }
      ++own.counted;
      ++counted_;
      if (d.used > counted + 1 + maybe) ++own.doubled;
      const bool lost = d.used < counted + 1;
      if (!d.allowed || d.used < 1 || d.from != source::redis || (lost && servers_ == memory::exact)) ++own.wrong;
      maybe -= std::max(0l, std::min(maybe, static_cast<long>(d.used) - counted - 1));
      counted = static_cast<long>(d.used);
    }
    const std::lock_guard lock{mutex_};
    total_.checks += own.checks;
    total_.longest = std::max(total_.longest, own.longest);
    total_.in_time += own.in_time;
    total_.counted += own.counted;
    total_.maybe += own.maybe;
    total_.refused += own.refused;
    total_.wrong += own.wrong;
    total_.doubled += own.doubled;
    for (const auto& [error, times] : own.errors) total_.errors[error] += times;
  }

  const std::chrono::microseconds deadline_;
  const memory servers_;
  Ask ask_;
  std::atomic<bool> stopping_{false};
  std::atomic<long> counted_{0};
  std::atomic<long> checks_{0};
  std::chrono::steady_clock::time_point fault_{};
  std::mutex mutex_{};
  account total_{};
  std::vector<std::thread> threads_{};
};

// Nobody has used them yet: another `name` for each load.
inline std::vector<std::string> identities(int count, const std::string& name = "user") {
  std::vector<std::string> made;
  for (int i = 0; i < count; ++i) made.push_back(name + std::to_string(i));
  return made;
}

}  // namespace clusters
