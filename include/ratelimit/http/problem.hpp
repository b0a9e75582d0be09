// The body of a refusal: RFC 9457 problem details, with the problem types of draft-ietf-httpapi-ratelimit-headers-11.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <ratelimit/decision.hpp>
#include <ratelimit/detail/utf8.hpp>
#include <ratelimit/http/parts.hpp>
#include <ratelimit/http/status.hpp>

namespace ratelimit::http {

// The Content-Type that goes with problem_json.
inline constexpr std::string_view problem_media_type = "application/problem+json";

namespace detail {

// A JSON string (RFC 8259) of any bytes: each byte outside well-formed UTF-8 becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out{'"'};
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = ratelimit::detail::utf8_sequence(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out += '"';
}

}  // namespace detail

// The body for limits that were decided together, by their status(); empty when the call may pass.
//
//   429  quota-exceeded; "violated-policies" names the limits that refused, in the order given.
//   503  temporary-reduced-capacity; "violated-policies" is empty, since nobody counted and so none is known to be.
//   400  about:blank; "detail" says what is wrong with the call.
//
// Names are the limits' own. In RateLimit-Policy the same name stands percent-encoded where it holds % or bytes outside
// printable ASCII.
inline std::string problem_json(std::span<const decision> limits) {
  const int code = status(limits);
  if (code == 400) {
    std::string detail;
    for (const decision& d : limits) {
      if (!d.allowed && d.from == source::invalid && detail.empty()) detail = d.error.message();
    }
    return R"({"type":"about:blank","title":"Bad Request","status":400,"detail":)" + detail::json_string(detail) + "}";
  }
  if (code == 503) {
    return R"({"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",)"
           R"("title":"Temporary Reduced Capacity","status":503,"violated-policies":[]})";
  }
  if (code != 429) return {};
  std::string names;
  for (const decision& d : limits) {
    if (d.allowed || d.from == source::failed_closed) continue;
    if (!names.empty()) names += ',';
    names += detail::json_string(d.limit_name);
  }
  return R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
         R"("title":"Quota Exceeded","status":429,"violated-policies":[)" +
         names + "]}";
}

// The same for one limit, or for every limit of an all_of.
template <std::derived_from<decision> Decision>
std::string problem_json(const Decision& d) {
  return problem_json(parts_of(d));
}

}  // namespace ratelimit::http
