// One line of an access log in Combined Log Format (httpd.apache.org/docs/2.4/logs.html#combined):
//
//   client ident user [day/month/year:hour:minute:second zone] "request" status bytes "referrer" "user agent"
//
// What follows the bytes is not looked at: the Common Log Format, which ends there, and formats with more fields are
// read too.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

#include <ratelimit/decision.hpp>

namespace replay {

struct log_line {
  std::string_view client;     // an address, IPv4 or IPv6, or a host name
  std::string_view path;       // up to the query; empty when the request is not "METHOD /path ..."
  ratelimit::time_point time;  // in whole seconds: the format has no more
};

namespace detail {

// The whole of `digits` as a number; -1 when one of them is no digit.
constexpr int number(std::string_view digits) noexcept {
  int value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return -1;
    value = value * 10 + (digit - '0');
  }
  return value;
}

constexpr unsigned month_number(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 12> names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (unsigned i = 0; i < names.size(); ++i) {
    if (name == names[i]) return i + 1;
  }
  return 0;
}

// 17/May/2015:10:05:03 +0200
inline constexpr std::size_t time_length = 26;

inline std::optional<ratelimit::time_point> parse_time(std::string_view text) noexcept {
  if (text.size() != time_length || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' ||
      text[17] != ':' || text[20] != ' ' || (text[21] != '+' && text[21] != '-')) {
    return std::nullopt;
  }
  const int day = number(text.substr(0, 2));
  const int year = number(text.substr(7, 4));
  const int hour = number(text.substr(12, 2));
  const int minute = number(text.substr(15, 2));
  const int second = number(text.substr(18, 2));
  const int zone_hours = number(text.substr(22, 2));
  const int zone_minutes = number(text.substr(24, 2));
  if (day < 0 || year < 0) return std::nullopt;
  if (zone_hours < 0 || zone_hours > 23 || zone_minutes < 0 || zone_minutes > 59) return std::nullopt;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
  if (second < 0 || second > 60) return std::nullopt;  // 60: a leap second
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month_number(text.substr(3, 3))},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  const auto zone = std::chrono::hours{zone_hours} + std::chrono::minutes{zone_minutes};
  const auto local = std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
                     std::chrono::seconds{second};
  return text[21] == '+' ? local - zone : local + zone;
}

// The time in brackets; `rest` then begins behind it. A user name may hold brackets and spaces of its own, so the first
// bracket that holds a time is the one.
inline std::optional<ratelimit::time_point> take_time(std::string_view& rest) noexcept {
  for (std::size_t open = rest.find(" ["); open != std::string_view::npos; open = rest.find(" [", open + 1)) {
    const std::string_view inside = rest.substr(open + 2);
    if (inside.size() <= time_length || inside[time_length] != ']') continue;
    if (const auto time = parse_time(inside.substr(0, time_length))) {
      rest = inside.substr(time_length + 1);
      return time;
    }
  }
  return std::nullopt;
}

// What stands between quotes, where \" is no end; `rest` then begins behind it.
inline std::optional<std::string_view> take_quoted(std::string_view& rest) noexcept {
  if (!rest.starts_with(" \"")) return std::nullopt;
  for (std::size_t i = 2; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (rest[i] == '"') {
      const std::string_view inside = rest.substr(2, i - 2);
      rest.remove_prefix(i + 1);
      return inside;
    }
  }
  return std::nullopt;
}

inline std::string_view take_word(std::string_view& rest) noexcept {
  if (!rest.starts_with(' ')) return {};
  const std::size_t end = rest.find(' ', 1);
  const std::string_view word = rest.substr(1, end == std::string_view::npos ? end : end - 1);
  rest.remove_prefix(word.size() + 1);
  return word;
}

constexpr bool is_client(std::string_view text) noexcept {
  if (text.empty() || text.size() > 255) return false;  // no host name is longer
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

constexpr std::string_view path_of(std::string_view request) noexcept {
  const std::size_t space = request.find(' ');
  if (space == std::string_view::npos || !request.substr(space + 1).starts_with('/')) return {};
  const std::string_view target = request.substr(space + 1);
  return target.substr(0, target.find_first_of(" ?#"));
}

}  // namespace detail

// Empty when the line is malformed. The result views the line. Its ending ("\n", "\r\n") is to be cut before, or is not
// looked at.
inline std::optional<log_line> parse(std::string_view line) noexcept {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::string_view client = line.substr(0, line.find(' '));
  std::string_view rest = line.substr(client.size());
  if (!detail::is_client(client)) return std::nullopt;
  const auto time = detail::take_time(rest);
  if (!time) return std::nullopt;
  const auto request = detail::take_quoted(rest);
  if (!request) return std::nullopt;
  const std::string_view status = detail::take_word(rest);
  const std::string_view bytes = detail::take_word(rest);
  if (status.size() != 3 || detail::number(status) < 0) return std::nullopt;
  if (bytes.empty() || (bytes != "-" && bytes.find_first_not_of("0123456789") != std::string_view::npos)) {
    return std::nullopt;
  }
  return log_line{client, detail::path_of(*request), *time};
}

}  // namespace replay
