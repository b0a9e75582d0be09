// Whether a caller of a crowd lets the others run before it sleeps.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>

namespace ratelimit::detail {

// Where many wait for answers on few processors, most have theirs by the time that the others have run: then they
// neither sleep nor have to be woken. But sched_yield(2) is as good as that only while the others are callers too. To
// work that takes its whole slice of a processor, some milliseconds, it loses against sleep; so when yields take long
// on average, there are none for a while. Racing threads may lose each other's figures: it is an estimate.
class giving_way {
 public:
  using clock = std::chrono::steady_clock;

  void give_way() noexcept {
    const clock::time_point began = clock::now();
    if (!pays(began)) return;
    ::sched_yield();
    note(began, clock::now());
  }

  bool pays(clock::time_point now) const noexcept {
    return now.time_since_epoch().count() >= not_before_.load(std::memory_order_relaxed);
  }
  void note(clock::time_point began, clock::time_point ended) noexcept {
    const clock::rep before = mean_.load(std::memory_order_relaxed);
    const clock::rep mean = before + ((ended - began).count() - before) / 32;
    const bool is_long = clock::duration{mean} > std::chrono::milliseconds{1};
    mean_.store(is_long ? 0 : mean, std::memory_order_relaxed);
    if (is_long)
      not_before_.store((ended + std::chrono::milliseconds{250}).time_since_epoch().count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<clock::rep> mean_{0};
  std::atomic<clock::rep> not_before_{0};
};

}  // namespace ratelimit::detail
