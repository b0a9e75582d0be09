// An IPv4 or IPv6 address as it is written in a socket's peer name, X-Forwarded-For, Forwarded or a list of proxies.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ratelimit::http {

// 16 bytes; an IPv4 address is kept as its IPv4-mapped form (::ffff:192.0.2.1), so that both spellings of it are equal.
class address {
 public:
  // A bare address: "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1". A zone id ("fe80::1%eth0") is dropped. Empty when
  // it is anything else.
  static std::optional<address> parse(std::string_view text) {
    const bool v6 = text.find(':') != text.npos;
    if (v6) text = text.substr(0, text.find('%'));
    char terminated[INET6_ADDRSTRLEN] = {};
    // inet_pton would take a NUL inside for the end.
    if (text.size() >= sizeof terminated || text.find('\0') != text.npos) return std::nullopt;
    std::copy(text.begin(), text.end(), terminated);
    address a;
    if (v6 && inet_pton(AF_INET6, terminated, a.bytes_.data()) == 1) return a;
    if (!v6 && inet_pton(AF_INET, terminated, a.bytes_.data() + mapped.size()) == 1) {
      std::copy(mapped.begin(), mapped.end(), a.bytes_.begin());
      return a;
    }
    return std::nullopt;
  }

  // The same with a port and brackets where they may stand: "192.0.2.1:443", "[2001:db8::1]", "[2001:db8::1]:443". The
  // port is dropped; RFC 7239 lets it be hidden as "_name".
  static std::optional<address> parse_node(std::string_view text) {
    if (!text.empty() && text.front() == '[') {
      const std::size_t end = text.find(']');
      if (end == text.npos) return std::nullopt;
      const std::string_view inside = text.substr(1, end - 1), rest = text.substr(end + 1);
      if (inside.find(':') == inside.npos || !(rest.empty() || is_port(rest))) return std::nullopt;
      return parse(inside);
    }
    const std::size_t colon = text.find(':');
    if (colon == text.npos || text.find(':', colon + 1) != text.npos) return parse(text);
    return is_port(text.substr(colon)) ? parse(text.substr(0, colon)) : std::nullopt;
  }

  bool is_v4() const noexcept { return std::equal(mapped.begin(), mapped.end(), bytes_.begin()); }

  // All bits but the first `prefix` (0 to 128) cleared.
  address masked(std::size_t prefix) const noexcept {
    address a = *this;
    for (std::size_t i = 0; i < a.bytes_.size(); ++i) {
      const std::size_t kept = std::clamp<std::size_t>(prefix, i * 8, i * 8 + 8) - i * 8;
      a.bytes_[i] = static_cast<unsigned char>(a.bytes_[i] & (0xFF00u >> kept));
    }
    return a;
  }

  // The one spelling of this address: inet_ntop's.
  std::string to_string() const {
    char text[INET6_ADDRSTRLEN];
    const bool v4 = is_v4();
    return inet_ntop(v4 ? AF_INET : AF_INET6, bytes_.data() + (v4 ? mapped.size() : 0), text, sizeof text);
  }

  friend bool operator==(const address&, const address&) = default;

 private:
  static constexpr std::array<unsigned char, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

  static bool is_port(std::string_view text) {
    if (text.size() < 2 || text[0] != ':') return false;
    if (text[1] == '_') return true;
    return text.size() <= 6 && text.find_first_not_of("0123456789", 1) == text.npos;
  }

  std::array<unsigned char, 16> bytes_{};
};

}  // namespace ratelimit::http
