// The status code that answers a decision.
#pragma once

#include <concepts>
#include <span>

#include <ratelimit/decision.hpp>
#include <ratelimit/http/parts.hpp>

namespace ratelimit::http {

// 200 allowed (a shadow limit's refusal too), 400 malformed call, 429 over the limit, 503 refused because the store
// could not be asked. For limits that were decided together: 400 before 429 before 503, since what the client can mend
// or wait for says more than that nobody could be asked. 200 stands for "go on"; the handler answers with its own code.
inline int status(std::span<const decision> limits) noexcept {
  bool over = false, unknown = false;
  for (const decision& d : limits) {
    if (d.allowed) continue;
    if (d.from == source::invalid) return 400;
    (d.from == source::failed_closed ? unknown : over) = true;
  }
  return over ? 429 : unknown ? 503 : 200;
}

// The same for one limit, or for every limit of an all_of.
template <std::derived_from<decision> Decision>
int status(const Decision& d) noexcept {
  return status(parts_of(d));
}

}  // namespace ratelimit::http
