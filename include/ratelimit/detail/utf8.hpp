// What is well-formed UTF-8: names go into JSON and into metrics, where nothing else may stand.
#pragma once

#include <cstddef>
#include <string_view>

namespace ratelimit::detail {

// The length of the well-formed UTF-8 sequence (RFC 3629: shortest form, no surrogates) that `text` starts with; 0 when
// it starts with none.
inline std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // The bytes after these first ones reach only a part of their range.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // longer than needed
  if (first == 0xED && byte(1) > 0x9F) return 0;  // a surrogate
  if (first == 0xF0 && byte(1) < 0x90) return 0;  // longer than needed
  if (first == 0xF4 && byte(1) > 0x8F) return 0;  // above U+10FFFF
  return length;
}

}  // namespace ratelimit::detail
