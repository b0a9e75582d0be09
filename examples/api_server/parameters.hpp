// What a limit needs to know of a request: who asks, where, and for how much. What is wrong with a request is found
// here, before anything is counted.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <httplib.h>

#include <ratelimit/http/client_address.hpp>
#include <ratelimit/ratelimit.hpp>

#include "problem.hpp"

namespace api_server {

// The account a key belongs to. A real server looks it up; what it must not do is count by a key that nobody issued,
// since each made-up key would bring a quota of its own. The limit counts by the account, not the key: what it counts
// by can be read in Redis, and the key is a secret. Throws problem 401.
inline std::string_view account(const httplib::Request& request) {
  struct issued {
    std::string_view key, account;
  };
  static constexpr std::array<issued, 5> keys{{{"key-of-ada", "ada"},
                                               {"key-of-ben", "ben"},
                                               {"key-of-cleo", "cleo"},
                                               {"key-of-dan", "dan"},
                                               {"key-of-eve", "eve"}}};
  const std::string key = request.get_header_value("X-API-Key");
  for (const issued& each : keys) {
    if (key == each.key) return each.account;
  }
  throw problem{401, "X-API-Key: a known key is needed; this example knows key-of-ada, -ben, -cleo, -dan and -eve"};
}

// Who asks where no key is needed: an IPv4 address, or an IPv6 network. Behind a proxy of your own, list it here: or
// else its address is all that is seen, and all clients share one quota. While the list is empty the header changes
// nothing, since anybody can send it.
inline std::string client(const httplib::Request& request) {
  static const ratelimit::http::proxies trusted{};
  std::string forwarded;
  for (auto [line, end] = request.headers.equal_range("X-Forwarded-For"); line != end; ++line) {
    forwarded.append(forwarded.empty() ? "" : ",").append(line->second);
  }
  return ratelimit::http::client_address(request.remote_addr, forwarded, trusted);
}

// Throws problem 400.
inline std::string region(const httplib::Request& request, const ratelimit::region_limits& known) {
  std::string chosen = request.get_param_value("region");
  if (known.contains(chosen)) return chosen;
  std::string text = "region: it must be one of";
  for (const auto& each : known) text += " " + each.first;
  throw problem{400, text};
}

// Hits on a page, 1 to 100; 20 when the request does not say. Throws problem 400.
inline int page_size(const httplib::Request& request) {
  if (!request.has_param("page_size")) return 20;
  const std::string text = request.get_param_value("page_size");
  int size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || end != text.data() + text.size() || size < 1 || size > 100) {
    throw problem{400, "page_size: it must be a whole number from 1 to 100"};
  }
  return size;
}

// One unit for each ten hits begun.
inline std::int64_t search_cost(const httplib::Request& request) {
  return (page_size(request) + 9) / 10;
}

}  // namespace api_server
