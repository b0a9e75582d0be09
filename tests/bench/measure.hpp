// Two ways to do a thing, measured in turn, so that what else the machine does meets both alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace bench {

inline double quantile(std::vector<double> values, double q) {
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}
inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

struct pair_of {
  double ours = 0;
  double other = 0;
  double ratio = 0;  // the median of the rounds' own ratios
};

// Each function gives one figure; they go first in turn.
inline pair_of alternate(int rounds, const std::function<double()>& ours, const std::function<double()>& other) {
  std::vector<double> a, b, ratios;
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) {
      a.push_back(ours());
      b.push_back(other());
    } else {
      b.push_back(other());
      a.push_back(ours());
    }
    ratios.push_back(a.back() / b.back());
  }
  return {median(a), median(b), median(ratios)};
}

// Microseconds of each call.
template <class Call>
std::vector<double> latencies(int count, Call call) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto began = clock::now();
    call(i);
    times.push_back(std::chrono::duration<double, std::micro>(clock::now() - began).count());
  }
  return times;
}

}  // namespace bench
