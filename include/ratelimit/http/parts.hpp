// The limits behind an answer.
#pragma once

#include <concepts>
#include <span>

#include <ratelimit/decision.hpp>

namespace ratelimit::http {

// Those that an all_of asked (its decision has `parts`), or the one limit.
template <std::derived_from<decision> Decision>
std::span<const decision> parts_of(const Decision& d) noexcept {
  if constexpr (requires { std::span<const decision>{d.parts}; }) {
    return d.parts;
  } else {
    return {&d, 1};
  }
}

}  // namespace ratelimit::http
