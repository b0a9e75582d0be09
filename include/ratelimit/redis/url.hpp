// Redis URLs, by RFC 3986.
//
//   redis://user:password@host:port/database     port 6379 and database 0 where they are left out
//   unix://user:password@/path?db=database
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

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

inline std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
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

inline void take_host_and_port(std::string_view authority, redis_options& out) {
  std::size_t end = authority.find(':');
  if (authority.starts_with('[')) {
    end = authority.find(']');
    if (end == std::string_view::npos) refuse_url("host: a \"[\" without a \"]\"");
    out.host = percent_decoded(authority.substr(1, end - 1), "host");
    authority.remove_prefix(end + 1);
    if (!authority.empty() && authority.front() != ':') refuse_url("host: something follows the \"]\"");
    end = 0;
  } else {
    out.host = percent_decoded(authority.substr(0, end), "host");
    authority.remove_prefix(std::min(end, authority.size()));
  }
  if (out.host.empty()) refuse_url("host: it is empty");
  if (authority.size() <= 1) return;  // "host" and "host:" both leave the port out
  const auto port = whole_number(authority.substr(1));
  if (!port || *port < 1 || *port > 65535)
    refuse_url("port: it is not a whole number within 1 and 65535 (an IPv6 address stands in brackets)");
  out.port = *port;
}

// db=N, the one key there is.
inline void take_query(std::string_view query, redis_options& out) {
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    if (!field.starts_with("db=")) {
      const std::string_view key = field.substr(0, field.find('='));
      refuse_url("query: \"" + std::string{key} + "\" is not known; db is, in unix URLs");
    }
    out.database = url_database(field.substr(3));
  }
}

inline redis_options tcp_url(std::string_view rest) {
  redis_options out;
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  std::string_view path = rest.substr(authority.size());
  if (path.find('@') != std::string_view::npos)
    refuse_url("user information: a \"/\", \"?\" or \"#\" in it must be percent-encoded");
  std::string_view host = authority;
  take_user_info(host, out);
  take_host_and_port(host, out);
  if (const std::size_t query = path.find_first_of("?#"); query != std::string_view::npos)
    refuse_url("\"" + std::string{path.substr(query)} + "\": redis URLs take no query and no fragment");
  if (path.size() > 1) out.database = url_database(path.substr(1));
  return out;
}

inline redis_options unix_url(std::string_view rest) {
  redis_options out;
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  std::string_view path = rest.substr(authority.size());
  take_user_info(authority, out);
  if (!authority.empty()) refuse_url("host: a Unix socket has none; the path begins at the third \"/\"");
  if (path.find('#') != std::string_view::npos) refuse_url("path: a \"#\" must be percent-encoded");
  const std::size_t query = path.find('?');
  if (query != std::string_view::npos) take_query(path.substr(query + 1), out);
  out.unix_path = percent_decoded(path.substr(0, query), "path");
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
  redis_options out;
  if (scheme == "redis") {
    out = detail::tcp_url(rest);
  } else if (scheme == "unix") {
    out = detail::unix_url(rest);
  } else {
    detail::refuse_url("scheme: \"" + std::string{scheme} + "\" is not redis or unix");
  }
  detail::require_valid(out);
  return out;
}

}  // namespace ratelimit
