// The address to count a request by, when some requests come through proxies.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <ratelimit/http/address.hpp>
#include <ratelimit/http/proxies.hpp>

namespace ratelimit::http {

namespace detail {

inline std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Takes the part after the last `separator` that is not inside quotes off `text`. It reads from the right, since only
// the right end was written by a proxy that is trusted: what a client left open or escaped further left changes
// nothing.
inline std::string_view take_last(std::string_view& text, char separator) noexcept {
  bool quoted = false;
  std::size_t at = text.size();
  for (; at > 0; --at) {
    const char c = text[at - 1];
    if (c == separator && !quoted) break;
    if (c != '"') continue;
    std::size_t before = at - 1;
    while (before > 0 && text[before - 1] == '\\') --before;
    if ((at - 1 - before) % 2 == 0) quoted = !quoted;
  }
  const std::string_view last = text.substr(at);
  text = text.substr(0, at > 0 ? at - 1 : 0);
  return trimmed(last);
}

inline bool is_for(std::string_view name) noexcept {
  return name.size() == 3 && (name[0] | 0x20) == 'f' && (name[1] | 0x20) == 'o' && (name[2] | 0x20) == 'r';
}

// One hop: an address as in X-Forwarded-For, or the `for` of an element of Forwarded (RFC 7239), which is the only one
// of the two to hold a `=`. Empty when it names no address ("unknown", "_hidden"), or two.
inline std::optional<address> forwarded_address(std::string_view element) {
  if (element.find('=') == element.npos) return address::parse_node(element);
  std::optional<std::string_view> node;
  while (!element.empty()) {
    const std::string_view pair = take_last(element, ';');
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos || !is_for(trimmed(pair.substr(0, equals)))) continue;
    if (node) return std::nullopt;
    node = trimmed(pair.substr(equals + 1));
  }
  if (!node) return std::nullopt;
  if (node->size() >= 2 && node->front() == '"' && node->back() == '"') node = node->substr(1, node->size() - 2);
  return address::parse_node(*node);
}

}  // namespace detail

// Where a request came from, as text to use as an identity.
//
// peer           the other end of the connection, as the socket names it; a port, brackets and a zone id are dropped.
// One
//                that is no IP address (a Unix socket's) is the answer as it is: name proxies on such sockets by other
//                means.
// forwarded_for  the X-Forwarded-For or the Forwarded header, whichever the proxies write (never the other one, which a
//                client can make up); several header lines joined by a comma, in order. Empty when there is none.
// trusted        the proxies. Their word is believed, and nobody else's.
// ipv6_prefix    an IPv6 client is counted by its network, 0 to 128 bits, as it can use every address in it. IPv4
//                addresses are counted whole, written as IPv6 (::ffff:192.0.2.1) or not.
//
// The header is read from the right: the first address that no listed proxy has is the client. Where a trusted proxy
// wrote something that is no address ("unknown", garbage), what stands left of it was not checked by anyone, so the
// answer is the peer; so it is when every hop is trusted. Empty elements are skipped, as in every HTTP list.
// Time is linear in what has to be read, without allocation but for the result. Throws std::invalid_argument for
// an ipv6_prefix out of range, and nothing that the peer or the header can cause.
inline std::string client_address(std::string_view peer, std::string_view forwarded_for, const proxies& trusted,
                                  int ipv6_prefix = 64) {
  if (ipv6_prefix < 0 || ipv6_prefix > 128) {
    throw std::invalid_argument{"ratelimit: ipv6_prefix: " + std::to_string(ipv6_prefix) + " is not within 0 and 128"};
  }
  const auto counted_by = [&](const address& a) {
    return (a.is_v4() ? a : a.masked(static_cast<std::size_t>(ipv6_prefix))).to_string();
  };
  const auto near = address::parse_node(detail::trimmed(peer));
  if (!near) return std::string{peer};
  if (!trusted.contains(*near)) return counted_by(*near);
  while (!forwarded_for.empty()) {
    const std::string_view element = detail::take_last(forwarded_for, ',');
    if (element.empty()) continue;
    const auto hop = detail::forwarded_address(element);
    if (!hop) break;
    if (!trusted.contains(*hop)) return counted_by(*hop);
  }
  return counted_by(*near);
}

}  // namespace ratelimit::http
