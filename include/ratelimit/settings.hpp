// A limiter's options, whatever its algorithm calls its numbers, and the one check of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <ratelimit/detail/integer.hpp>
#include <ratelimit/detail/refuse.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/key.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/period.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// A region's own limit (a token bucket's own capacity), in units.
using region_limits = std::map<std::string, std::int64_t, std::less<>>;

namespace detail {

struct settings {
  algorithm_id algorithm;
  std::string_view tag;  // what the keys say of the algorithm
  std::string name;
  rule numbers;
  fail on_failure;
  scope by;
  region_limits per_region;
  std::chrono::microseconds deadline;
  std::size_t deny_cache;
  double local_share;
  bool shadow;
  ratelimit::observer observer;
  std::string prefix;
};

// The options that every limiter has, beside the numbers of its algorithm.
template <class Algorithm, class Options>
settings settings_of(Options chosen, const rule& numbers) {
  return {.algorithm = Algorithm::id,
          .tag = Algorithm::tag,
          .name = std::move(chosen.name),
          .numbers = numbers,
          .on_failure = chosen.on_failure,
          .by = chosen.by,
          .per_region = std::move(chosen.per_region),
          .deadline = chosen.deadline,
          .deny_cache = chosen.deny_cache,
          .local_share = chosen.local_share,
          .shadow = chosen.shadow,
          .observer = std::move(chosen.observer),
          .prefix = std::move(chosen.prefix)};
}

constexpr bool is_count(std::int64_t value) noexcept {
  return value >= 1 && value <= max_exact;
}

inline void require_count(std::string_view option, std::int64_t value) {
  if (!is_count(value)) refuse(option, std::to_string(value), "is not within 1 and 2^53 - 1");
}

inline void require_window(std::string_view option, std::chrono::microseconds length) {
  if (length < std::chrono::milliseconds{1} || length > std::chrono::years{10})
    refuse(option, std::to_string(length.count()) + "us", "is not within 1 ms and 10 years");
}

inline void require_short(std::string_view option, std::string_view text) {
  if (text.size() > max_key_part) refuse(option, std::to_string(text.size()) + " bytes", "is longer than 512 bytes");
}

inline void require_valid(const settings& s) {
  require_short("name", s.name);
  require_short("prefix", s.prefix);
  if (s.prefix.find_first_of("{}") != std::string::npos)
    refuse("prefix", s.prefix, "holds a brace, which would move the hash tag");
  for (const auto& [region, limit] : s.per_region) {
    require_short("per_region", region);
    require_count("per_region[\"" + region + "\"]", limit);
  }
  if (s.deadline < std::chrono::microseconds{1} || s.deadline > std::chrono::hours{1})
    refuse("deadline", std::to_string(s.deadline.count()) + "us", "is not within 1 us and 1 hour");
  if (!(s.local_share >= 0.001 && s.local_share <= 1))
    refuse("local_share", std::to_string(s.local_share), "is not within 0.001 and 1");
  if (!(s.observer.near_ratio > 0 && s.observer.near_ratio <= 1))
    refuse("observer.near_ratio", std::to_string(s.observer.near_ratio), "is not above 0 and at most 1");
}

}  // namespace detail
}  // namespace ratelimit
