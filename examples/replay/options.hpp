// The replay's command line.
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "policy.hpp"

namespace replay {

inline constexpr std::string_view usage = R"(usage: replay [OPTION...] [FILE]

Replays a web server's access log (Combined Log Format) against rate limits, with the log's own times, and prints what
each would have admitted and refused. Reads FILE, or standard input when there is none or it is "-".

  --algorithm NAME   begins a policy: sliding_log, sliding_counter, token_bucket or fixed_window. The options behind it
                     are this policy's; those before the first one are every policy's. Without it: all four.
  --limit N          requests that pass in one window (10)
  --window TIME      length of the window (10s)
  --by WHOM          what has a quota of its own: client, path (its first part, /blog), client_and_path or everyone
                     (client)
  --capacity N       token_bucket: requests that pass at once (the limit)
  --refill N         token_bucket: tokens that come back ... (the limit)
  --per TIME         ... in this time (the window)
  --help             prints this

A TIME is a whole number and a unit: 500ms, 10s, 1min, 2h, 1d.

  replay --limit 100 --window 1min access.log
  replay --by client --algorithm sliding_log --limit 20 --algorithm token_bucket --capacity 20 --refill 1 --per 2s < access.log
)";

struct options {
  std::vector<policy> policies;
  std::string file = "-";
  bool help = false;
};

// What the command line gets wrong, with the option and its value.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

[[noreturn]] inline void refuse(std::string_view option, std::string_view value, std::string_view why) {
  throw usage_error{std::string{option}.append(": \"").append(value).append("\" ").append(why)};
}

inline std::int64_t to_count(std::string_view option, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    refuse(option, text, "is not a whole number of at least 1");
  }
  return value;
}

inline std::chrono::microseconds to_duration(std::string_view option, std::string_view text) {
  constexpr std::array<named<std::int64_t>, 5> units{
      {{"ms", 1'000}, {"s", 1'000'000}, {"min", 60'000'000}, {"h", 3'600'000'000}, {"d", 86'400'000'000}}};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, micros] : units) {
    if (error != std::errc{} || unit != name || value < 1) continue;
    if (value > std::numeric_limits<std::int64_t>::max() / micros) refuse(option, text, "is too long");
    return std::chrono::microseconds{value * micros};
  }
  refuse(option, text, "is not a time such as 500ms, 10s, 1min, 2h or 1d");
}

template <class Value, std::size_t N>
Value to_choice(std::string_view option, std::string_view text, const std::array<named<Value>, N>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  refuse(option, text, "is none of " + known);
}

}  // namespace detail

// Throws usage_error.
inline options parse_options(const std::vector<std::string_view>& arguments) {
  options parsed;
  policy shared;  // what stands before the first --algorithm
  bool file_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    if (option == "--help" || option == "-h") {
      parsed.help = true;
      return parsed;
    }
    if (!option.starts_with("-") || option == "-") {
      if (file_given) detail::refuse("FILE", option, "is one file too many");
      parsed.file = option;
      file_given = true;
      continue;
    }
    std::string_view value;
    if (const auto equals = option.find('='); equals != std::string_view::npos) {
      value = option.substr(equals + 1);
      option = option.substr(0, equals);
    } else if (++i < arguments.size()) {
      value = arguments[i];
    } else {
      throw usage_error{std::string{option} + ": its value is missing"};
    }
    policy& current = parsed.policies.empty() ? shared : parsed.policies.back();
    if (option == "--algorithm") {
      parsed.policies.push_back(shared);
      parsed.policies.back().kind = detail::to_choice(option, value, algorithms);
    } else if (option == "--limit") {
      current.limit = detail::to_count(option, value);
    } else if (option == "--window") {
      current.window = detail::to_duration(option, value);
    } else if (option == "--by") {
      current.by = detail::to_choice(option, value, scopes);
    } else if (option == "--capacity") {
      current.capacity = detail::to_count(option, value);
    } else if (option == "--refill") {
      current.refill = detail::to_count(option, value);
    } else if (option == "--per") {
      current.per = detail::to_duration(option, value);
    } else {
      throw usage_error{std::string{option} + ": no such option"};
    }
  }
  if (parsed.policies.empty()) {
    for (const auto& each : algorithms) {
      parsed.policies.push_back(shared);
      parsed.policies.back().kind = each.value;
    }
  }
  return parsed;
}

}  // namespace replay
