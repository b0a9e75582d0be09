// The clocks a limiter can decide by.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>

#include <ratelimit/decision.hpp>

namespace ratelimit {

// A clock: now() is a time_point, or an empty optional to let the store use its own clock. Copied into the limiter and
// called from many threads at once.
template <class T>
concept time_source = std::copy_constructible<T> && requires(const T& clock) {
  { clock.now() } -> std::convertible_to<std::optional<time_point>>;
};

// The store's own clock, the default: Redis' TIME, read inside the script, so that servers whose clocks drift agree.
struct server_clock {
  std::optional<time_point> now() const noexcept { return std::nullopt; }
};

// This machine's wall clock: saves the script a TIME, and trusts every API server's clock to be in step.
struct system_clock {
  time_point now() const noexcept {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  }
};

// A clock that moves only when told, for tests and for replaying logs. Copies share the time. Thread-safe.
// What it does not move: a key's lifetime in Redis runs on the server's own clock.
class manual_clock {
 public:
  explicit manual_clock(time_point start = {}) : now_{std::make_shared<std::atomic<time_point>>(start)} {}

  time_point now() const noexcept { return now_->load(); }
  void set(time_point to) noexcept { now_->store(to); }
  // Negative steps run the time backwards.
  void advance(std::chrono::microseconds by) noexcept {
    for (time_point seen = now_->load(); !now_->compare_exchange_weak(seen, seen + by);) {
    }
  }

 private:
  std::shared_ptr<std::atomic<time_point>> now_;
};

}  // namespace ratelimit
