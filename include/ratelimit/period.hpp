// A length of time given as an option: any chrono duration that is a whole number of microseconds by its type.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <utility>

namespace ratelimit {

// Converts from 60s, 1min, hours, years and the like. What does not fit 64 bits of microseconds becomes the largest
// value instead of wrapping round, so that the limiter's own check refuses it.
class period {
 public:
  constexpr period() = default;
  template <class Rep, class Ratio>
  requires std::integral<Rep> &&
      std::convertible_to<std::chrono::duration<Rep, Ratio>, std::chrono::duration<Rep, std::micro>>
  constexpr period(std::chrono::duration<Rep, Ratio> length) noexcept : length_{saturated(length)} {}

  constexpr operator std::chrono::microseconds() const noexcept { return length_; }
  constexpr std::int64_t count() const noexcept { return length_.count(); }

 private:
  template <class Rep, class Ratio>
  static constexpr std::chrono::microseconds saturated(std::chrono::duration<Rep, Ratio> length) noexcept {
    using limits = std::numeric_limits<std::int64_t>;
    constexpr std::int64_t factor = std::ratio_divide<Ratio, std::micro>::num;
    if (std::cmp_greater(length.count(), limits::max() / factor)) return std::chrono::microseconds{limits::max()};
    if (std::cmp_less(length.count(), limits::min() / factor)) return std::chrono::microseconds{limits::min()};
    return std::chrono::microseconds{static_cast<std::int64_t>(length.count()) * factor};
  }

  std::chrono::microseconds length_{0};
};

}  // namespace ratelimit
