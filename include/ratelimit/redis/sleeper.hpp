// One thread's sleep, until another one has something for it or a deadline passes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>

#include <ratelimit/failure.hpp>

namespace ratelimit::detail {

// What a sleeping caller is told.
enum class news : std::uint32_t { none, drive, done };

// A futex (futex(2)), and no condition variable: it lies on the caller's stack, which may be gone as soon as the news
// is in, while the wake-up that follows needs no more than the address, and harms nobody when another sleeps there by
// then.
class sleeper {
 public:
  news heard() const noexcept {
    const std::uint32_t seen = word_.load(std::memory_order_acquire);
    return seen == asleep ? news::none : static_cast<news>(seen);
  }

  // News, or none when the deadline passed first. Signals make the sleep neither longer nor shorter.
  news wait(const deadline& until) noexcept {
    std::uint32_t seen = 0;
    if (!word_.compare_exchange_strong(seen, asleep, std::memory_order_acquire)) return static_cast<news>(seen);
    const auto at = until.at().time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
    // What the kernel takes is two longs, whatever size time_t has. The steady clock is its CLOCK_MONOTONIC.
    const struct {
      long seconds;
      long nanoseconds;
    } limit{static_cast<long>(seconds.count()), static_cast<long>(std::chrono::nanoseconds{at - seconds}.count())};
    while (heard() == news::none && !until.passed())
      ::syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, asleep, &limit, nullptr, FUTEX_BITSET_MATCH_ANY);
    return heard();
  }

  // Returns the address to wake, or null where nobody sleeps. After news::done the object may be gone.
  const void* tell(news what) noexcept {
    const void* const address = &word_;
    return word_.exchange(static_cast<std::uint32_t>(what), std::memory_order_acq_rel) == asleep ? address : nullptr;
  }

  static void wake(const void* address) noexcept {
    ::syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static constexpr std::uint32_t asleep = 0xffff'ffff;

  std::atomic<std::uint32_t> word_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
};

// Sleepers that have their news, to be woken once no lock is held that they or others want.
class wake_list {
 public:
  void add(const void* address) noexcept {
    if (address == nullptr) return;
    if (count_ == addresses_.size()) flush();
    addresses_[count_++] = address;
  }
  void flush() noexcept {
    for (; count_ > 0; --count_) sleeper::wake(addresses_[count_ - 1]);
  }

 private:
  std::array<const void*, 64> addresses_;
  std::size_t count_ = 0;
};

}  // namespace ratelimit::detail
