// Whole-number arithmetic that neither overflows nor rounds the wrong way.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ratelimit::detail {

__extension__ using int128 = __int128;

// The largest whole number that Lua's doubles, and so the scripts, hold exactly.
inline constexpr std::int64_t max_exact = (std::int64_t{1} << 53) - 1;

// The largest multiple of `step` that is not above `value`, also below zero.
constexpr std::int64_t floor_to(std::int64_t value, std::int64_t step) noexcept {
  const std::int64_t rest = value % step;
  return value - rest - (rest < 0 ? step : 0);
}

// ceil(a / b) for a >= 0, b > 0, and no more than max_exact: 285 years in microseconds, which no caller waits out.
constexpr std::int64_t ceil_div(int128 a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(std::min<int128>((a + b - 1) / b, max_exact));
}

}  // namespace ratelimit::detail
