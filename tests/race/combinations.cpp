// Many threads of several processes on one combination.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"

using namespace joint;

namespace {

constexpr int processes = 4;
constexpr int threads = 16;
constexpr int calls = 100;  // of each thread
constexpr int identities = 8;
constexpr int regions = 3;

constexpr std::int64_t pair_limit = 20;  // of an identity in a region
constexpr std::int64_t own_limit = 50;   // of an identity, over all regions
constexpr std::int64_t whole_limit = 300;

// What all processes write to.
struct tally {
  std::atomic<int> admitted[identities][regions];
  std::atomic<int> refused_by[3];  // by this limit alone
  std::atomic<int> others;         // not counted by Redis
};

class shared_tally {
 public:
  shared_tally() {
    void* const place = ::mmap(nullptr, sizeof(tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::runtime_error{"mmap"};
    value_ = new (place) tally{};
  }
  shared_tally(const shared_tally&) = delete;
  shared_tally& operator=(const shared_tally&) = delete;
  ~shared_tally() { ::munmap(value_, sizeof(tally)); }
  tally* operator->() const { return value_; }
  tally& operator*() const { return *value_; }

 private:
  tally* value_;
};

template <class Backend>
auto quota_of(Backend& b) {
  return all_of{log_of(b, "pair", pair_limit, 24h), window_of(b, "own", own_limit, 24h, {.by = scope::identity}),
                counter_of(b, "whole", whole_limit, 24h, {.by = scope::everyone})};
}

std::string identity_of(int i) {
  return "user" + std::to_string(i);
}
std::string region_of(int i) {
  return "region" + std::to_string(i);
}

// Half of the calls on one pair, some on the same identity's others, the rest over everybody: so that each limit in
// turn is the one that refuses.
void call_often(const std::string& url, int number, tally& sum) {
  struct {
    ratelimit::redis store;
    manual_clock clock{midnight};
  } b{ratelimit::redis{url}};
  const auto quota = quota_of(b);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int i = 0; i < calls; ++i) {
        const int seed = (number * threads + t) * 31 + i / 10;
        const int kind = i % 10;
        const int identity = kind < 8 ? 0 : 1 + seed % (identities - 1);
        const int region = kind < 5 ? 0 : kind < 8 ? 1 + seed % (regions - 1) : seed % regions;
        const auto d = quota.check(identity_of(identity), region_of(region));
        if (d.from != source::redis) ++sum.others;
        if (d.allowed) ++sum.admitted[identity][region];
        int refusals = 0, by = 0;
        for (int part = 0; part < 3; ++part) {
          if (d.parts[static_cast<std::size_t>(part)].allowed) continue;
          ++refusals;
          by = part;
        }
        if (refusals == 1) ++sum.refused_by[by];
      }
    });
  }
  for (std::thread& one : running) one.join();
}

}  // namespace

TEST_CASE("16 threads in each of 4 processes: never more than any limit allows", "[race]") {
  on_redis b;
  const shared_tally sum;
  std::vector<pid_t> children;
  for (int number = 0; number < processes; ++number) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        call_often(b.server.url(), number, *sum);
        ::_exit(0);
      } catch (...) {
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(sum->others == 0);

  b.clock.set(midnight);
  const auto quota = quota_of(b);
  std::int64_t whole = 0;
  for (int i = 0; i < identities; ++i) {
    std::int64_t own = 0;
    for (int r = 0; r < regions; ++r) {
      const std::int64_t pair = sum->admitted[i][r];
      own += pair;
      CHECK(pair <= pair_limit);
      CHECK(quota.peek(identity_of(i), region_of(r)).parts[0].used == pair);
    }
    whole += own;
    CHECK(own <= own_limit);
    CHECK(quota.peek(identity_of(i), region_of(0)).parts[1].used == own);
  }
  CHECK(whole == whole_limit);  // there were calls enough to exhaust it
  CHECK(quota.peek(identity_of(0), region_of(0)).parts[2].used == whole);
  CHECK(sum->admitted[0][0] == pair_limit);
  for (const auto& alone : sum->refused_by) CHECK(alone > 0);
}
