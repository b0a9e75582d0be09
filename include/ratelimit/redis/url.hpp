// Redis URLs, by RFC 3986.
//
//   redis://user:password@host:port/database     port 6379 and database 0 where they are left out
//   unix://user:password@/path?db=database
//   redis+cluster://user:password@host:port,host:port
//   redis+sentinel://user:password@host:port,host:port/master/database?sentinel_username=...&sentinel_password=...
//       the hosts are the sentinels', port 26379 where it is left out; user and password are the master's
//   rediss://, rediss+cluster:// and rediss+sentinel:// are the same over TLS, for programs that include redis/tls.hpp
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/redis/address.hpp>
#include <ratelimit/redis/options.hpp>

namespace ratelimit {

namespace detail {

// Of what stands before the path nothing is ever quoted: it may be a password in the wrong place.
[[noreturn]] inline void refuse_url(const std::string& why) {
  throw std::invalid_argument{"ratelimit: Redis URL: " + why};
}

// Once, and "+" stays "+": this is no form.
inline std::string percent_decoded(std::string_view text, std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (failed != std::errc{} || end != digits.data() + 2)
      refuse_url(std::string{part} + ": a % is not followed by two hexadecimal digits");
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

inline int url_database(std::string_view text) {
  const auto number = whole_number(text);
  if (!number) refuse_url("database: \"" + std::string{text} + "\" is not a whole number");
  return *number;
}

// Takes what stands before the last "@" off the authority.
inline void take_user_info(std::string_view& authority, redis_options& out) {
  const std::size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return;
  const std::string_view user = authority.substr(0, at);
  authority.remove_prefix(at + 1);
  const std::size_t colon = user.find(':');
  // Many take redis://secret@host for a password, and others for a user: neither is guessed.
  if (colon == std::string_view::npos)
    refuse_url("user information: it holds no \":\"; write user:password@, or :password@ for the default user");
  out.username = percent_decoded(user.substr(0, colon), "user");
  out.password = percent_decoded(user.substr(colon + 1), "password");
}

// "host" and "host:" both leave the port out.
inline redis_address url_address(std::string_view text, int default_port) {
  redis_address out{.host = {}, .port = default_port};
  std::size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos) refuse_url("host: a \"[\" without a \"]\"");
    out.host = percent_decoded(text.substr(1, end - 1), "host");
    ++end;
  } else {
    out.host = percent_decoded(text.substr(0, end), "host");
  }
  if (out.host.empty()) refuse_url("host: it is empty");
  text.remove_prefix(end);
  if (!text.empty() && text.front() != ':') refuse_url("host: something follows the \"]\"");
  if (text.size() <= 1) return out;
  const auto port = port_number(text.substr(1));
  if (!port) refuse_url("port: it is not a whole number within 1 and 65535 (an IPv6 address stands in brackets)");
  out.port = *port;
  return out;
}

// Calls take(key, value) for each field of "?key=value&key=value", as written. Of values nothing is ever quoted either.
template <class Take>
void for_each_field(std::string_view query, Take take) {
  query.remove_prefix(std::min<std::size_t>(1, query.size()));
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    const std::string_view key = field.substr(0, field.find('='));
    take(key, field.substr(std::min(key.size() + 1, field.size())));
  }
}

[[noreturn]] inline void refuse_field(std::string_view key) {
  refuse_url(
      "query: \"" + std::string{key} +
      "\" is not known; db is, in unix URLs, and sentinel_username and sentinel_password, in redis+sentinel URLs");
}

// What follows the scheme.
struct url_parts {
  std::string_view authority{};  // what stands before the first of "/", "?" and "#"
  std::string_view path{};       // with its "/"
  std::string_view query{};      // with its "?"

  explicit url_parts(std::string_view rest) : authority{rest.substr(0, rest.find_first_of("/?#"))} {
    rest.remove_prefix(authority.size());
    path = rest.substr(0, rest.find_first_of("?#"));
    query = rest.substr(path.size());
    if (query.find('#') != std::string_view::npos) refuse_url("path: a \"#\" must be percent-encoded");
  }
};

// The parts of a URL with hosts. An "@" out of place is taken for the end of user information.
inline url_parts take_host_parts(std::string_view rest, redis_options& out) {
  if (rest.find('@', std::min(rest.find_first_of("/?#"), rest.size())) != std::string_view::npos)
    refuse_url("user information: a \"/\", \"?\" or \"#\" in it must be percent-encoded");
  url_parts parts{rest};
  take_user_info(parts.authority, out);
  return parts;
}

inline std::vector<redis_address> url_addresses(std::string_view list, int default_port) {
  std::vector<redis_address> out;
  for (;;) {
    const std::size_t comma = std::min(list.find(','), list.size());
    out.push_back(url_address(list.substr(0, comma), default_port));
    if (comma == list.size()) return out;
    list.remove_prefix(comma + 1);
  }
}

inline redis_options single_url(std::string_view rest) {
  redis_options out;
  const url_parts parts = take_host_parts(rest, out);
  if (parts.authority.find(',') != std::string_view::npos)
    refuse_url("host: several are for redis+sentinel and redis+cluster");
  const redis_address where = url_address(parts.authority, out.port);
  for_each_field(parts.query, [](std::string_view key, std::string_view) { refuse_field(key); });
  if (parts.path.size() > 1) out.database = url_database(parts.path.substr(1));
  out.host = where.host;
  out.port = where.port;
  return out;
}

inline redis_options cluster_url(std::string_view rest) {
  redis_options out{.mode = redis_mode::cluster};
  const url_parts parts = take_host_parts(rest, out);
  out.nodes = url_addresses(parts.authority, out.port);
  for_each_field(parts.query, [](std::string_view key, std::string_view) { refuse_field(key); });
  if (parts.path.size() > 1) out.database = url_database(parts.path.substr(1));
  return out;
}

inline redis_options sentinel_url(std::string_view rest) {
  redis_options out{.mode = redis_mode::sentinel};
  const url_parts parts = take_host_parts(rest, out);
  out.nodes = url_addresses(parts.authority, 26379);
  for_each_field(parts.query, [&out](std::string_view key, std::string_view value) {
    if (key == "sentinel_username") {
      out.sentinel_username = percent_decoded(value, key);
    } else if (key == "sentinel_password") {
      out.sentinel_password = percent_decoded(value, key);
    } else {
      refuse_field(key);
    }
  });
  const std::string_view path = parts.path.substr(std::min<std::size_t>(1, parts.path.size()));
  const std::size_t slash = std::min(path.find('/'), path.size());
  out.master_name = percent_decoded(path.substr(0, slash), "master");
  if (out.master_name.empty()) refuse_url("master: the path must begin with its name");
  if (slash + 1 < path.size()) out.database = url_database(path.substr(slash + 1));
  return out;
}

inline redis_options unix_url(std::string_view rest) {
  redis_options out;
  url_parts parts{rest};
  take_user_info(parts.authority, out);
  if (!parts.authority.empty()) refuse_url("host: a Unix socket has none; the path begins at the third \"/\"");
  for_each_field(parts.query, [&out](std::string_view key, std::string_view value) {
    if (key != "db") refuse_field(key);
    out.database = url_database(value);
  });
  out.unix_path = percent_decoded(parts.path, "path");
  if (out.unix_path.empty()) refuse_url("path: it is empty");
  return out;
}

}  // namespace detail

// What a URL says, as options: to change some before a store is made of them. Throws std::invalid_argument, which names
// the part at fault and never shows user information.
inline redis_options parse_redis_url(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) detail::refuse_url("it does not begin with redis:// or unix://");
  const std::string_view scheme = url.substr(0, colon);
  const std::string_view rest = url.substr(colon + 3);
  const bool secure = scheme.starts_with("rediss");
  const std::string_view plain = secure ? "redis" : scheme.substr(0, scheme.find('+'));
  const std::string_view kind = scheme.substr(std::min(scheme.size(), secure ? 6 : plain.size()));
  redis_options out;
  if (scheme == "unix") {
    out = detail::unix_url(rest);
  } else if (plain == "redis" && kind.empty()) {
    out = detail::single_url(rest);
  } else if (plain == "redis" && kind == "+sentinel") {
    out = detail::sentinel_url(rest);
  } else if (plain == "redis" && kind == "+cluster") {
    out = detail::cluster_url(rest);
  } else {
    detail::refuse_url("scheme: \"" + std::string{scheme} +
                       "\" is not unix or redis, rediss, the latter two also with +sentinel or +cluster");
  }
  if (secure) {
    if (detail::default_tls == nullptr)
      detail::refuse_url("scheme: rediss needs a program that includes ratelimit/redis/tls.hpp and links OpenSSL");
    out.tls = detail::default_tls();
  }
  detail::require_valid(out);
  return out;
}

}  // namespace ratelimit
