// A server's host and port.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace ratelimit {

struct redis_address {
  std::string host;  // a name or an IPv4 or IPv6 address, the latter without brackets
  int port = 6379;

  bool operator==(const redis_address&) const = default;
};

namespace detail {

// Digits alone.
inline std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
}

inline bool is_port(long long number) noexcept {
  return number >= 1 && number <= 65535;
}

inline std::optional<int> port_number(std::string_view text) {
  const auto number = whole_number(text);
  return number && is_port(*number) ? number : std::nullopt;
}

}  // namespace detail

}  // namespace ratelimit
