// Where a Redis server is, and how to introduce oneself.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/detail/refuse.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/redis/address.hpp>
#include <ratelimit/redis/tls_engine.hpp>

namespace ratelimit {

enum class redis_mode : std::uint8_t {
  single,    // one server: host and port, or unix_path
  sentinel,  // the master that sentinels name: nodes are the sentinels
  cluster,   // many masters, of which each keeps some slots: nodes are some of the cluster's, the others are learned
};

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
  // The most connections open at a time, 1 to 1,000. Checks share them: a further one is opened when each before it has
  // 16 answers due, or does not answer. More than a few gain nothing.
  int connections = 4;

  // The circuit breaker. After so many failures in a row (1 to 1,000,000; those that overlap are one) nobody asks this
  // server for a pause, and checks are answered at once by on_failure. Then one check asks; each that fails doubles the
  // pause, up to the longest. A pause lasts between half its length and the whole. 1 ms to 1 h.
  int failures = 5;
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{2000};
  // Hears of the breaker's changes, and of nothing else: see observer::breaker.
  ratelimit::observer observer{};

  redis_mode mode = redis_mode::single;
  // Whom to ask where the keys are; the more, the more of them may be down. With them host, port and unix_path are not
  // used. At least one for sentinel and cluster, none for single. A sentinel's port is 26379 as a rule.
  std::vector<redis_address> nodes{};
  // sentinel: the name by which the sentinels know the master.
  std::string master_name{};
  // sentinel: as username and password, which are the master's, but for the sentinels.
  std::string sentinel_username{};
  std::string sentinel_password{};

  // Encrypts every connection, the sentinels' too: make_tls() of redis/tls.hpp. Empty: plain text. Not for a Unix
  // socket.
  tls_context tls{};
};

namespace detail {

// What a Unix socket's address has room for, without the closing NUL.
inline constexpr std::size_t max_unix_path = 107;

inline void require_valid_address(const redis_address& where) {
  if (where.host.empty()) refuse("host", "the value", "is empty");
  if (!std::all_of(where.host.begin(), where.host.end(), [](char c) { return c > ' ' && c <= '~'; }))
    refuse("host", "the value", "holds a byte that is not visible ASCII");
  if (!is_port(where.port)) refuse("port", std::to_string(where.port), "is not within 1 and 65535");
}

// How `chosen` fits together with its mode.
inline void require_valid_mode(const redis_options& chosen) {
  const bool single = chosen.mode == redis_mode::single;
  const bool sentinel = chosen.mode == redis_mode::sentinel;
  if (single && !chosen.nodes.empty()) refuse("nodes", "the list", "is for the modes sentinel and cluster");
  if (!single && chosen.nodes.empty()) refuse("nodes", "the list", "is empty");
  if (!single && !chosen.unix_path.empty()) refuse("unix_path", "the value", "is for the mode single");
  if (sentinel && chosen.master_name.empty()) refuse("master_name", "the value", "is empty");
  if (!sentinel && !chosen.master_name.empty()) refuse("master_name", "the value", "is for the mode sentinel");
  if (!sentinel && !(chosen.sentinel_username.empty() && chosen.sentinel_password.empty()))
    refuse("sentinel_username, sentinel_password", "the value", "is for the mode sentinel");
  if (chosen.mode == redis_mode::cluster && chosen.database != 0)
    refuse("database", std::to_string(chosen.database), "is not 0, the only one a cluster has");
}

inline void require_valid(const redis_options& chosen) {
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  const auto holds_nul = [](std::string_view text) { return text.find('\0') != std::string_view::npos; };
  if (chosen.unix_path.size() > max_unix_path) refuse("unix_path", chosen.unix_path, "is longer than 107 bytes");
  if (!chosen.unix_path.empty() && chosen.tls) refuse("tls", "the value", "is not for a Unix socket");
  if (holds_nul(chosen.unix_path)) refuse("unix_path", "the value", "holds a NUL");
  if (chosen.mode == redis_mode::single && chosen.unix_path.empty()) require_valid_address({chosen.host, chosen.port});
  for (const redis_address& one : chosen.nodes) require_valid_address(one);
  require_valid_mode(chosen);
  if (chosen.database < 0) refuse("database", std::to_string(chosen.database), "is negative");
  if (!std::all_of(chosen.client_name.begin(), chosen.client_name.end(), visible))
    refuse("client_name", "the value", "holds a byte that is not visible ASCII");
  if (chosen.connections < 1 || chosen.connections > 1000)
    refuse("connections", std::to_string(chosen.connections), "is not within 1 and 1000");
  if (chosen.failures < 1 || chosen.failures > 1'000'000)
    refuse("failures", std::to_string(chosen.failures), "is not within 1 and 1000000");
  using namespace std::chrono_literals;
  if (chosen.first_pause < 1ms || chosen.first_pause > 1h)
    refuse("first_pause", std::to_string(chosen.first_pause.count()), "ms is not within 1 ms and 1 h");
  if (chosen.longest_pause < chosen.first_pause || chosen.longest_pause > 1h)
    refuse("longest_pause", std::to_string(chosen.longest_pause.count()), "ms is not within first_pause and 1 h");
}

// The server as its breaker's changes name it: host:port, or the Unix socket's path.
inline std::string address_of(const redis_options& to) {
  if (!to.unix_path.empty()) return to.unix_path;
  const std::string port = ":" + std::to_string(to.port);
  return to.host.find(':') == std::string::npos ? to.host + port : "[" + to.host + "]" + port;
}

// The same for one of several servers.
inline redis_options options_for(const redis_options& all, const redis_address& one) {
  redis_options chosen = all;
  chosen.mode = redis_mode::single;
  chosen.nodes.clear();
  chosen.host = one.host;
  chosen.port = one.port;
  return chosen;
}

}  // namespace detail

}  // namespace ratelimit
