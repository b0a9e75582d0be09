// One thread's sleep, until another one has something for it or a deadline passes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <utility>

#include <ratelimit/failure.hpp>

namespace ratelimit::detail {

// What a sleeping caller is told.
enum class news : std::uint32_t { none, drive, done };

// What the callers of one link sleep at: a futex (futex(2)), and no condition variable, so that a few of many are woken
// in one system call, with no lock held. Each has one of 32 bits; who shares another's bit is woken with it and sleeps
// on.
class belfry {
 public:
  // The bit of the next caller. Not thread-safe.
  std::uint32_t next_bit() noexcept { return std::uint32_t{1} << (given_++ % 32); }

  std::uint32_t rung() const noexcept { return word_.load(std::memory_order_acquire); }
  // Sleeps, unless it was rung meanwhile; at most until the instant, and for nothing as well.
  void wait(std::uint32_t rung, std::uint32_t bit, const deadline& until) noexcept {
    const auto at = until.at().time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
    // What the kernel takes is two longs, whatever size time_t has. The steady clock is its CLOCK_MONOTONIC.
    const struct {
      long seconds;
      long nanoseconds;
    } limit{static_cast<long>(seconds.count()), static_cast<long>(std::chrono::nanoseconds{at - seconds}.count())};
    ::syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, rung, &limit, nullptr, bit);
  }
  void ring(std::uint32_t bits) noexcept {
    word_.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
  std::uint32_t given_ = 0;
};

// It lies on the caller's stack, which may be gone as soon as the news is in.
class sleeper {
 public:
  // Before anybody else knows of it.
  void use(std::uint32_t bit) noexcept { bit_ = bit; }

  news heard() const noexcept {
    const std::uint32_t seen = word_.load(std::memory_order_acquire);
    return seen == asleep ? news::none : static_cast<news>(seen);
  }

  // News, or none when the deadline passed first. Signals make the sleep neither longer nor shorter.
  news wait(belfry& in, const deadline& until) noexcept {
    std::uint32_t seen = 0;
    if (!word_.compare_exchange_strong(seen, asleep, std::memory_order_acquire)) return static_cast<news>(seen);
    for (;;) {
      // In this order: whoever has news tells it first and rings then, so that none is slept through.
      const std::uint32_t rung = in.rung();
      if (heard() != news::none || until.passed()) return heard();
      in.wait(rung, bit_, until);
    }
  }

  // Returns the bits to ring for, none where nobody sleeps. After news::done the object may be gone.
  std::uint32_t tell(news what) noexcept {
    const std::uint32_t bit = bit_;
    return word_.exchange(static_cast<std::uint32_t>(what), std::memory_order_acq_rel) == asleep ? bit : 0;
  }

 private:
  static constexpr std::uint32_t asleep = 0xffff'ffff;

  std::atomic<std::uint32_t> word_{0};
  std::uint32_t bit_ = 0;
};

// Sleepers that have their news, to be woken once no lock is held that they or others want.
class wake_list {
 public:
  void add(std::uint32_t bits) noexcept { bits_ |= bits; }
  void flush(belfry& in) noexcept {
    if (bits_ != 0) in.ring(std::exchange(bits_, 0));
  }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace ratelimit::detail
