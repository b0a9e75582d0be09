// A policy the log is replayed against: the caller's choice of algorithm and numbers, and the limiter they make.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <ratelimit/ratelimit.hpp>

namespace replay {

enum class algorithm : std::uint8_t { sliding_log, sliding_counter, token_bucket, fixed_window };

struct policy {
  algorithm kind = algorithm::sliding_log;
  std::int64_t limit = 10;
  std::chrono::microseconds window = std::chrono::seconds{10};
  ratelimit::scope by = ratelimit::scope::identity;
  // The token bucket's; where they are left out, the bucket holds `limit` tokens and takes `window` to fill.
  std::optional<std::int64_t> capacity;
  std::optional<std::int64_t> refill;
  std::optional<std::chrono::microseconds> per;
};

template <class Value>
struct named {
  std::string_view name;
  Value value;
};

inline constexpr std::array<named<algorithm>, 4> algorithms{{{"sliding_log", algorithm::sliding_log},
                                                             {"sliding_counter", algorithm::sliding_counter},
                                                             {"token_bucket", algorithm::token_bucket},
                                                             {"fixed_window", algorithm::fixed_window}}};

// The client is the limiter's identity, the first part of the path its region.
inline constexpr std::array<named<ratelimit::scope>, 4> scopes{
    {{"client", ratelimit::scope::identity},
     {"path", ratelimit::scope::region},
     {"client_and_path", ratelimit::scope::identity_and_region},
     {"everyone", ratelimit::scope::everyone}}};

template <class Value, std::size_t N>
std::string_view name_of(const std::array<named<Value>, N>& names, Value value) {
  for (const auto& each : names) {
    if (each.value == value) return each.name;
  }
  return "?";
}

inline std::string duration_text(std::chrono::microseconds length) {
  struct unit {
    std::int64_t micros;
    const char* name;
  };
  constexpr std::array<unit, 5> units{
      {{86'400'000'000, "d"}, {3'600'000'000, "h"}, {60'000'000, "min"}, {1'000'000, "s"}, {1'000, "ms"}}};
  for (const unit& each : units) {
    if (length.count() % each.micros == 0) return std::to_string(length.count() / each.micros) + " " + each.name;
  }
  return std::to_string(length.count()) + " us";
}

// "10 each 1 min by client"
inline std::string numbers_text(const policy& p) {
  std::string text;
  if (p.kind == algorithm::token_bucket) {
    text = std::to_string(p.capacity.value_or(p.limit)) + ", refilled by " +
           std::to_string(p.refill.value_or(p.limit)) + " each " + duration_text(p.per.value_or(p.window));
  } else {
    text = std::to_string(p.limit) + " each " + duration_text(p.window);
  }
  return text + " by " + std::string{name_of(scopes, p.by)};
}

// What is chosen at run time in this program is a template argument in the library: one signature hides it.
using check = std::function<ratelimit::decision(std::string_view client, std::string_view path)>;

// The store must outlive the result. Throws std::invalid_argument for numbers out of range.
inline check make_check(ratelimit::memory& store, const policy& p, const std::string& name,
                        const ratelimit::manual_clock& clock) {
  // `memory` can always be asked: on_failure is never needed, and closed would show it if it were.
  constexpr auto on_failure = ratelimit::fail::closed;
  const auto by_calling = [](auto limiter) -> check {
    return [limiter = std::move(limiter)](std::string_view client, std::string_view path) {
      return limiter.check(client, path);
    };
  };
  switch (p.kind) {
    case algorithm::sliding_log:
      return by_calling(ratelimit::sliding_log{
          store, {.name = name, .limit = p.limit, .window = p.window, .on_failure = on_failure, .by = p.by}, clock});
    case algorithm::sliding_counter:
      return by_calling(ratelimit::sliding_counter{
          store, {.name = name, .limit = p.limit, .window = p.window, .on_failure = on_failure, .by = p.by}, clock});
    case algorithm::token_bucket:
      return by_calling(ratelimit::token_bucket{store,
                                                {.name = name,
                                                 .capacity = p.capacity.value_or(p.limit),
                                                 .refill = p.refill.value_or(p.limit),
                                                 .per = p.per.value_or(p.window),
                                                 .on_failure = on_failure,
                                                 .by = p.by},
                                                clock});
    case algorithm::fixed_window:
      return by_calling(ratelimit::fixed_window{
          store, {.name = name, .limit = p.limit, .window = p.window, .on_failure = on_failure, .by = p.by}, clock});
  }
  throw std::invalid_argument{"unknown algorithm"};
}

}  // namespace replay
