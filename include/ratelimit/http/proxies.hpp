// The proxies whose word on where a request came from is believed.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/http/address.hpp>

namespace ratelimit::http {

// Networks ("192.0.2.0/24", "2001:db8::/32") and single addresses, parsed once; build it when the server starts. Bits
// after the prefix are ignored: "192.0.2.7/24" is "192.0.2.0/24". A network of one family never holds an address of the
// other, so "::/0" trusts no IPv4 address. Looked through from the front on each request: meant for tens of entries.
class proxies {
 public:
  proxies() = default;

  // std::invalid_argument, with the entry in the text, when one is neither.
  proxies(std::initializer_list<std::string_view> entries) { add(entries); }
  template <class Range>
  requires std::convertible_to<std::ranges::range_reference_t<const Range>, std::string_view> proxies(
      const Range& entries) {
    add(entries);
  }

  bool contains(const address& a) const {
    return std::any_of(networks_.begin(), networks_.end(),
                       [&](const network& n) { return n.base.is_v4() == a.is_v4() && n.base == a.masked(n.prefix); });
  }

 private:
  struct network {
    address base;
    std::size_t prefix;  // of 128 bits
  };

  template <class Range>
  void add(const Range& entries) {
    for (const std::string_view entry : entries) networks_.push_back(parse(entry));
  }

  static network parse(std::string_view entry) {
    const std::size_t slash = entry.find('/');
    const auto base = address::parse(entry.substr(0, slash));
    if (!base) throw refused(entry, "is not an IP address or network");
    if (slash == entry.npos) return {*base, 128};

    // An IPv4-mapped base written as IPv6 counts its prefix in 128 bits.
    const bool dotted = entry.find(':') == entry.npos;
    const std::string_view digits = entry.substr(slash + 1);
    unsigned prefix = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    if (failed != std::errc{} || end != digits.data() + digits.size() || prefix > (dotted ? 32 : 128)) {
      throw refused(entry,
                    dotted ? "has a prefix that is not within 0 and 32" : "has a prefix that is not within 0 and 128");
    }
    if (dotted) prefix += 96;
    if (base->is_v4() && prefix < 96) throw refused(entry, "is IPv4-mapped, and its prefix is below 96");
    return {base->masked(prefix), prefix};
  }

  static std::invalid_argument refused(std::string_view entry, const char* why) {
    return std::invalid_argument{"ratelimit: trusted proxy: \"" + std::string{entry} + "\" " + why};
  }

  std::vector<network> networks_;
};

}  // namespace ratelimit::http
