// What a limiter does when its store cannot be asked, and how long it may ask.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>

namespace ratelimit {

enum class fail : std::uint8_t {
  open,    // let the call pass: the service matters more than the limit
  closed,  // refuse it (503): the limit guards something that must not be overrun, a login say
  local,   // count it in this process, against local_share of the limit
};

// The option on_failure. It has no default on purpose: an outage's outcome is chosen, never fallen into.
class failure_choice {
 public:
  // Not deleted: clang 14 would then call the options no match, and not say which of them is missing.
  template <class Missing = fail>
  failure_choice() {
    static_assert(!std::same_as<Missing, fail>,
                  "on_failure is missing: choose fail::open, fail::closed or fail::local");
  }
  constexpr failure_choice(fail mode) noexcept : mode_{mode} {}
  constexpr operator fail() const noexcept { return mode_; }

 private:
  fail mode_;
};

// The instant by which a check must be back, on the monotonic clock: made once per check, so that waiting, connecting,
// sending, reading and a retry all draw on the same time.
class deadline {
 public:
  using clock = std::chrono::steady_clock;

  explicit deadline(std::chrono::microseconds within) : at_{clock::now() + within} {}
  explicit deadline(clock::time_point at) : at_{at} {}

  clock::time_point at() const noexcept { return at_; }
  // Never negative.
  std::chrono::microseconds left() const noexcept {
    return std::max(std::chrono::duration_cast<std::chrono::microseconds>(at_ - clock::now()),
                    std::chrono::microseconds{0});
  }
  bool passed() const noexcept { return clock::now() >= at_; }

 private:
  clock::time_point at_;
};

}  // namespace ratelimit
