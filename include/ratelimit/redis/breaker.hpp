// Stops asking a server that does not answer, and finds out when it does again.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>

#include <ratelimit/error.hpp>
#include <ratelimit/observer.hpp>

namespace ratelimit::detail {

struct breaker_settings {
  int failures;
  std::chrono::nanoseconds first_pause;
  std::chrono::nanoseconds longest_pause;
};

// A circuit breaker (M. Nygard, Release It!), of one server. It reads no clock and asks nobody: it is told the time and
// how calls went. Thread-safe; while all is well a call costs two loads.
//
//   closed     every call asks; `failures` failed ones in a row open it
//   open       nobody asks until a pause is over
//   half_open  one call, the probe, is asking: an answer closes it, a failure opens it for twice the pause
//
// Failed calls that overlap are one failure: thirty threads that wait for the same stalled answer have seen one stall.
// That is what rounds are for: each failure that is counted begins a new one, and only a call of the present round can
// be the next. Pauses are jittered, between a half of them and the whole, so that many clients do not ask in step.
class breaker {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  // How a call may go on.
  struct entry {
    std::error_code refused{};  // set: it must not ask, and this is why the last one failed
    std::uint64_t round = 0;
    bool probe = false;  // it made the breaker half-open
  };

  breaker(breaker_settings chosen, std::uint32_t seed) : chosen_{chosen}, pause_{chosen.first_pause}, random_{seed} {}

  // `now` is called only where it matters: a callable, so that nobody reads a clock while all is well.
  template <class Clock>
  entry enter(const Clock& now) {
    if (state_.load(std::memory_order_acquire) == breaker_state::closed) return {.round = round_.load()};
    const time_point at = now();
    if (at.time_since_epoch().count() < next_probe_.load()) return {.refused = error_.load()};
    const std::lock_guard lock{mutex_};
    if (state_ == breaker_state::closed) return {.round = round_};
    if (at.time_since_epoch().count() < next_probe_) return {.refused = error_.load()};
    // A probe with a long deadline keeps the others waiting no longer than the longest pause.
    next_probe_ = (at + chosen_.longest_pause).time_since_epoch().count();
    const bool change = state_ != breaker_state::half_open;
    state_ = breaker_state::half_open;
    return {.round = ++round_, .probe = change};
  }

  // The server answered, whatever it said. True when that closed the breaker.
  bool succeeded() {
    if (calm_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock{mutex_};
    const bool change = state_ != breaker_state::closed;
    in_a_row_ = 0;
    pause_ = chosen_.first_pause;
    state_ = breaker_state::closed;
    calm_ = true;
    return change;
  }

  // The call that was let in so could not ask, or had no answer. True when that opened the breaker.
  bool failed(const entry& in, errc why, time_point now) {
    const std::lock_guard lock{mutex_};
    if (in.round != round_ || state_ == breaker_state::open) return false;
    ++round_;
    calm_ = false;
    error_ = why;
    if (state_ == breaker_state::closed && ++in_a_row_ < chosen_.failures) return false;
    if (state_ == breaker_state::half_open) pause_ = std::min(2 * pause_, chosen_.longest_pause);
    const auto half = pause_ / 2;
    const auto jitter = std::chrono::nanoseconds{
        std::uniform_int_distribution<std::chrono::nanoseconds::rep>{0, (pause_ - half).count()}(random_)};
    next_probe_ = (now + half + jitter).time_since_epoch().count();
    state_ = breaker_state::open;
    return true;
  }

  breaker_state state() const noexcept { return state_; }

 private:
  const breaker_settings chosen_;
  std::atomic<breaker_state> state_{breaker_state::closed};
  std::atomic<bool> calm_{true};  // closed, and the last call was answered
  std::atomic<std::uint64_t> round_{0};
  std::atomic<time_point::rep> next_probe_{0};  // while not closed
  std::atomic<errc> error_{errc::refused};      // of the last failure

  std::mutex mutex_{};
  int in_a_row_ = 0;
  std::chrono::nanoseconds pause_;
  std::minstd_rand random_;
};

}  // namespace ratelimit::detail
