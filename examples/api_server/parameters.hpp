// What a limit needs to know of a request beside who asks: where, and for how much. What is wrong with it is found
// here, before anything is counted.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include <httplib.h>

#include <ratelimit/ratelimit.hpp>

#include "problem.hpp"

namespace api_server {

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
