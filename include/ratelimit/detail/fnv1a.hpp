// A number that stands for a text: the same in every process and from every compiler, which std::hash does not promise.
#pragma once

#include <cstdint>
#include <string_view>

namespace ratelimit::detail {

// FNV-1a, 64 bits (draft-eastlake-fnv). `seed`: the result for the text before this one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325) noexcept {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed;
}

}  // namespace ratelimit::detail
