// Eight processes with four threads each on one key for five seconds, by the server's own clock: what each was told is
// put together, in the order it happened, and then no limit may have been broken.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <ios>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "property/algorithms.hpp"
#include "property/reference.hpp"
#include "race/processes.hpp"
#include "support/server.hpp"

using namespace property;
using reference::count;
using reference::wide;

namespace {

constexpr int process_count = 8;
constexpr int thread_count = 4;
constexpr std::chrono::seconds hammered{5};

// A decision without its texts, to be written to a file as it is.
struct record {
  count at;
  count cost;
  count allowed;
  count used;
  count remaining;
  count retry;  // 0: none
  count reset;
  count full;

  bool operator==(const record&) const = default;
};

std::vector<record> hammer(const auto& limiter, count seed) {
  std::vector<record> told;
  const auto end = std::chrono::steady_clock::now() + hammered;
  for (count i = seed; std::chrono::steady_clock::now() < end; ++i) {
    const count cost = i % 3 + 1;
    const ratelimit::decision d = limiter.check("everybody", {}, cost);
    if (d.from != ratelimit::source::redis) throw std::runtime_error{"not counted: " + d.error.message()};
    told.push_back({d.at.time_since_epoch().count(), cost, d.allowed ? 1 : 0, d.used, d.remaining,
                    d.retry_after ? d.retry_after->count() : 0, d.reset_after.count(), d.full_after.count()});
  }
  return told;
}

// One child's work: its own store, its own threads, what they were told into one file.
template <class Pair>
void hammer_from_threads(const std::string& url, const reference::numbers& n, const std::string& path, count seed) {
  ratelimit::redis store{url};
  const auto limiter = make_limiter<Pair>(store, n, ratelimit::server_clock{});
  std::vector<std::vector<record>> told(thread_count);
  std::vector<std::exception_ptr> errors(thread_count);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      try {
        told[t] = hammer(limiter, seed + static_cast<count>(t));
      } catch (...) {
        errors[t] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);

  std::ofstream file{path, std::ios::binary};
  for (const std::vector<record>& some : told)
    file.write(reinterpret_cast<const char*>(some.data()), static_cast<std::streamsize>(some.size() * sizeof(record)));
  file.close();
  if (!file) throw std::runtime_error{"cannot write " + path};
}

// What all were told, in the order the server decided it. Within a microsecond each admitted call makes `used` larger,
// and a denied one comes after the admitted ones that it found.
template <class Pair>
std::vector<record> hammered_decisions(const reference::numbers& n) {
  support::server server;
  const auto path = [&](int child) { return server.directory() + "/told-" + std::to_string(child); };
  race::processes children;
  for (int child = 0; child < process_count; ++child)
    children.start([&] { hammer_from_threads<Pair>(server.url(), n, path(child), child); });
  REQUIRE(children.wait() == 0);

  std::vector<record> all;
  for (int child = 0; child < process_count; ++child) {
    std::ifstream file{path(child), std::ios::binary};
    for (record r; file.read(reinterpret_cast<char*>(&r), sizeof r);) all.push_back(r);
  }
  std::sort(all.begin(), all.end(), [](const record& a, const record& b) {
    return std::tuple{a.at, a.used, -a.allowed} < std::tuple{b.at, b.used, -b.allowed};
  });
  return all;
}

std::vector<record> admitted(std::vector<record> all) {
  std::erase_if(all, [](const record& r) { return r.allowed == 0; });
  return all;
}

// Both happened: else nothing was put to the test.
void require_pressure(const std::vector<record>& all) {
  const std::size_t passed = admitted(all).size();
  REQUIRE(passed > 0);
  REQUIRE(passed < all.size());
}

// Every decision is the one the reference makes of the same calls, one after the other.
template <class Pair>
void require_reference(const std::vector<record>& all, const reference::numbers& n) {
  typename Pair::model model;
  for (const record& r : all) {
    const reference::answer a = reference::check(model, n, r.at, r.cost);
    const record wanted{r.at, r.cost, a.allowed ? 1 : 0, a.used, a.remaining, a.retry.value_or(0), a.reset, a.full};
    if (!(r == wanted)) {
      INFO("at " << r.at << ", cost " << r.cost);
      REQUIRE(r.allowed == wanted.allowed);
      REQUIRE(r.used == wanted.used);
      REQUIRE(r.remaining == wanted.remaining);
      REQUIRE(r.retry == wanted.retry);
      REQUIRE(r.reset == wanted.reset);
      REQUIRE(r.full == wanted.full);
    }
  }
}

// The most units admitted in any one aligned window.
count most_in_a_window(const std::vector<record>& passed, count window) {
  std::map<count, count> units;
  count most = 0;
  for (const record& r : passed) most = std::max(most, units[r.at / window] += r.cost);
  return most;
}

constexpr reference::numbers numbers{.limit = 50, .window = 200'000, .refill = 40};

}  // namespace

TEMPLATE_TEST_CASE("hammered, no trailing window of a sliding log holds more than the limit", "[race]", log_pair,
                   compact_pair) {
  const std::vector<record> all = hammered_decisions<TestType>(numbers);
  require_pressure(all);
  const std::vector<record> passed = admitted(all);
  count held = 0;
  count most = 0;
  for (std::size_t newest = 0, oldest = 0; newest < passed.size(); ++newest) {
    held += passed[newest].cost;
    for (; passed[oldest].at <= passed[newest].at - numbers.window; ++oldest) held -= passed[oldest].cost;
    most = std::max(most, held);
  }
  REQUIRE(most <= numbers.limit);
  require_reference<TestType>(all, numbers);
}

TEST_CASE("hammered, a sliding counter keeps to its estimate and to the limit in each window", "[race]") {
  const std::vector<record> all = hammered_decisions<counter_pair>(numbers);
  require_pressure(all);
  REQUIRE(most_in_a_window(admitted(all), numbers.window) <= numbers.limit);
  require_reference<counter_pair>(all, numbers);
}

TEST_CASE("hammered, a token bucket gives no more than its capacity and what has come since", "[race]") {
  const std::vector<record> all = hammered_decisions<bucket_pair>(numbers);
  require_pressure(all);
  // In parts of 1/window token: taken so far less what has come, and the least that was before each call. In any
  // interval the bucket gave the difference.
  wide owed = 0;
  std::optional<wide> least;
  wide most = 0;
  count last = 0;
  for (const record& r : admitted(all)) {
    if (least) owed -= wide{r.at - last} * numbers.refill;
    last = r.at;
    least = std::min(least.value_or(owed), owed);
    owed += wide{r.cost} * numbers.window;
    most = std::max(most, owed - *least);
  }
  REQUIRE(most <= wide{numbers.limit} * numbers.window);
  require_reference<bucket_pair>(all, numbers);
}

TEST_CASE("hammered, a fixed window holds no more than the limit", "[race]") {
  const std::vector<record> all = hammered_decisions<fixed_pair>(numbers);
  require_pressure(all);
  REQUIRE(most_in_a_window(admitted(all), numbers.window) <= numbers.limit);
  require_reference<fixed_pair>(all, numbers);
}
