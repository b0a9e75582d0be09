// The response fields that tell a client its quota, as name/value pairs for any web framework.
//
// Formats: RateLimit-Policy and RateLimit are structured fields (RFC 9651) as in
// draft-ietf-httpapi-ratelimit-headers-11. Retry-After is RFC 9110's delay in seconds. X-RateLimit-* has no standard:
// here Reset is a Unix timestamp. Every time is in whole seconds, rounded up, so that a client that waits as told is
// never early.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/decision.hpp>
#include <ratelimit/http/parts.hpp>

namespace ratelimit::http {

// Which fields to send; combine with |.
enum class fields : std::uint8_t {
  x_ratelimit = 1,  // X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
  ratelimit = 2,    // RateLimit-Policy, RateLimit
  retry_after = 4,  // Retry-After
  all = 7,
};
constexpr fields operator|(fields a, fields b) noexcept {
  return static_cast<fields>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool contains(fields set, fields one) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

using header_list = std::vector<std::pair<std::string, std::string>>;

namespace detail {

// Plain digits whatever the locale.
inline std::string digits(std::int64_t value) {
  char text[20];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// A structured field's integer has at most 15 digits: a larger limit is told as that.
inline std::string sf_integer(std::int64_t value) {
  return digits(std::min<std::int64_t>(value, 999'999'999'999'999));
}

// A structured field's string holds printable ASCII alone. Other bytes, and % so that no two names meet, are
// percent-encoded: no name can end the string, the field or the header.
inline std::string sf_string(std::string_view name) {
  constexpr char hex[] = "0123456789ABCDEF";
  std::string out{'"'};
  for (const char c : name) {
    if (c < ' ' || c > '~' || c == '%') {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', hex[byte >> 4], hex[byte & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out += '"';
}

inline std::int64_t seconds_up(std::chrono::microseconds time) noexcept {
  return std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(time).count(), 0);
}

}  // namespace detail

// The fields for limits that were decided together, in the order given; of equally tight ones the first binds.
//
//   X-RateLimit-*     the binding limit's. Reset = at + reset_after, the Unix time from which remaining is larger.
//   RateLimit-Policy  each limit: its name, q = limit, w = window (left out when that is 0).
//   RateLimit         each limit: its name, r = remaining, t = reset_after: until then the client can use no more than
//                     r, which is what the draft calls the effective window. 0 when the quota is full.
//   Retry-After       only when a limit refused the call: the longest wait of those that did, at least 1. Left out when
//                     one of them knows no wait: waiting cannot help, or nobody counted.
//
// What nobody counted (failed_open, failed_closed) is never told as a number: of such a limit only the configuration
// stands, X-RateLimit-Limit and RateLimit-Policy. A malformed call (invalid) says nothing of a quota, and gives no
// field. A shadow limit shows its numbers like any other; leave it out of `limits` to keep it from clients.
inline header_list headers(std::span<const decision> limits, fields which = fields::all) {
  const decision* binding = nullptr;
  bool can_pass = true;
  std::optional<std::chrono::microseconds> wait;
  std::string policies, quotas;
  for (const decision& d : limits) {
    if (!d.allowed) {
      can_pass = can_pass && d.retry_after;
      wait = std::max(wait, d.retry_after);
    }
    if (d.from == source::invalid || d.from == source::unlimited) continue;
    if (!binding || binds_before(d, *binding)) binding = &d;
    const std::string name = detail::sf_string(d.limit_name);
    policies += (policies.empty() ? "" : ", ") + name + ";q=" + detail::sf_integer(d.limit);
    if (d.window.count() > 0) policies += ";w=" + detail::sf_integer(detail::seconds_up(d.window));
    if (!d.counted()) continue;
    quotas += (quotas.empty() ? "" : ", ") + name + ";r=" + detail::sf_integer(d.remaining) +
              ";t=" + detail::sf_integer(detail::seconds_up(d.reset_after));
  }

  header_list out;
  if (binding && contains(which, fields::x_ratelimit)) {
    out.emplace_back("X-RateLimit-Limit", detail::digits(binding->limit));
    if (binding->counted()) {
      const auto reset = binding->at.time_since_epoch() + binding->reset_after;
      out.emplace_back("X-RateLimit-Remaining", detail::digits(binding->remaining));
      out.emplace_back("X-RateLimit-Reset", detail::digits(detail::seconds_up(reset)));
    }
  }
  if (binding && contains(which, fields::ratelimit)) {
    out.emplace_back("RateLimit-Policy", std::move(policies));
    if (!quotas.empty()) out.emplace_back("RateLimit", std::move(quotas));
  }
  if (can_pass && wait && contains(which, fields::retry_after)) {
    out.emplace_back("Retry-After", detail::digits(std::max<std::int64_t>(detail::seconds_up(*wait), 1)));
  }
  return out;
}

// The same for one limit, or for every limit of an all_of.
template <std::derived_from<decision> Decision>
header_list headers(const Decision& d, fields which = fields::all) {
  return headers(parts_of(d), which);
}

}  // namespace ratelimit::http
