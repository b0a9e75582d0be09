// The slot of a key, by which a cluster chooses the node (Redis cluster specification, "Key distribution model"). Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ratelimit::detail {

inline constexpr std::size_t slot_count = 16384;

// CRC16/XMODEM: polynomial 0x1021, most significant bit first, starting from 0.
inline constexpr std::array<std::uint16_t, 256> crc16_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021u : 0u);
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

constexpr std::uint16_t crc16(std::string_view text) noexcept {
  std::uint32_t crc = 0;
  for (const char c : text) crc = (crc << 8) ^ crc16_table[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff];
  return static_cast<std::uint16_t>(crc);
}

// What of the key is hashed: what stands between its first "{" and the first "}" after that, unless that is nothing;
// else all of it.
constexpr std::string_view hash_tag(std::string_view key) noexcept {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

constexpr std::uint16_t slot_of(std::string_view key) noexcept {
  return static_cast<std::uint16_t>(crc16(hash_tag(key)) % slot_count);
}

}  // namespace ratelimit::detail
