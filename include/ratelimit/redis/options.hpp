// Where a Redis server is, and how to introduce oneself.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ratelimit {

struct redis_options {
  // A name or an IPv4 or IPv6 address, the latter without brackets. Looking up a name is the one step that a check's
  // deadline does not bound: the system's resolver takes what time it takes. Addresses are not looked up.
  std::string host = "127.0.0.1";
  int port = 6379;
  // A Unix socket, at most 107 bytes. When it is given, host and port are not used.
  std::string unix_path{};
  // Empty: the server's default user.
  std::string username{};
  // With neither a user name nor a password, none is sent.
  std::string password{};
  int database = 0;
  // What CLIENT LIST shows: printable ASCII without spaces. Empty: none is set.
  std::string client_name{};
  // The most connections open at a time, 1 to 1,000. They are opened when first needed; a check that finds all of them
  // in use waits for one within its deadline.
  int connections = 4;
};

namespace detail {

// What a Unix socket's address has room for, without the closing NUL.
inline constexpr std::size_t max_unix_path = 107;

[[noreturn]] inline void refuse_option(std::string_view option, std::string_view value, std::string_view must) {
  std::string text{"ratelimit: "};
  throw std::invalid_argument{text.append(option).append(": ").append(value).append(" ").append(must)};
}

inline void require_valid(const redis_options& chosen) {
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  const auto holds_nul = [](std::string_view text) { return text.find('\0') != std::string_view::npos; };
  if (chosen.unix_path.size() > max_unix_path) refuse_option("unix_path", chosen.unix_path, "is longer than 107 bytes");
  if (holds_nul(chosen.unix_path)) refuse_option("unix_path", "the value", "holds a NUL");
  if (chosen.unix_path.empty()) {
    if (chosen.host.empty()) refuse_option("host", "the value", "is empty");
    if (!std::all_of(chosen.host.begin(), chosen.host.end(), visible))
      refuse_option("host", "the value", "holds a byte that is not visible ASCII");
    if (chosen.port < 1 || chosen.port > 65535)
      refuse_option("port", std::to_string(chosen.port), "is not within 1 and 65535");
  }
  if (chosen.database < 0) refuse_option("database", std::to_string(chosen.database), "is negative");
  if (!std::all_of(chosen.client_name.begin(), chosen.client_name.end(), visible))
    refuse_option("client_name", "the value", "holds a byte that is not visible ASCII");
  if (chosen.connections < 1 || chosen.connections > 1000)
    refuse_option("connections", std::to_string(chosen.connections), "is not within 1 and 1000");
}

}  // namespace detail

}  // namespace ratelimit
