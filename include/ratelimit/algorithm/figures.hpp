// What an algorithm reads out of the state a store answered with.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

// Times are waits in microseconds from the call's own time; 0 where there is nothing to wait for.
struct figures {
  std::int64_t used = 0;
  std::int64_t retry = 0;  // until `cost` units fit
  std::int64_t reset = 0;  // until remaining is larger
  std::int64_t full = 0;   // until used is 0
};

inline std::int64_t remaining(const rule& numbers, std::int64_t used) noexcept {
  return std::max<std::int64_t>(numbers.limit - used, 0);
}

// What the C++ step of an algorithm answers, and whether the state is another one than before.
struct stepped {
  outcome seen{};
  bool wrote = false;
};

// The three waits of a decision are one question: from when do so many units fit?
template <class WaitFor>
figures explain_by(const rule& numbers, std::int64_t used, std::int64_t cost, WaitFor wait_for) {
  figures f{.used = used};
  if (cost <= numbers.limit) f.retry = wait_for(cost);
  if (used > 0) {
    f.reset = wait_for(remaining(numbers, used) + 1);
    f.full = wait_for(numbers.limit);
  }
  return f;
}

}  // namespace ratelimit::algorithm
