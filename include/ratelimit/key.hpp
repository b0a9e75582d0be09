// Who a limit counts by, and the key that stands for it in the store.
//
//   <prefix><algorithm tag>:<name>:{<identity>}:<region>      parts left out by scope
//
// Name, identity and region are percent-encoded where they hold %, :, {, }, a space or a control byte: no two different
// calls share a key, and nothing a client sends can move or end the hash tag, by which a cluster chooses the slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ratelimit {

enum class scope : std::uint8_t {
  identity_and_region,  // each identity has its own quota in each region
  identity,             // one quota over all regions
  region,               // one quota for all identities of a region
  everyone,             // one quota for all
};

constexpr bool counts_identity(scope by) noexcept {
  return by == scope::identity_and_region || by == scope::identity;
}
constexpr bool counts_region(scope by) noexcept {
  return by == scope::identity_and_region || by == scope::region;
}

// The longest prefix, name, identity and region, each in bytes as given.
inline constexpr std::size_t max_key_part = 512;

namespace detail {

constexpr bool must_encode(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= ' ' || byte == 0x7f || c == '%' || c == ':' || c == '{' || c == '}';
}

// Writes `part`, percent-encoded, to `out`, which has room for three times its size; returns the end.
inline char* encode(std::string_view part, char* out) noexcept {
  constexpr char digits[] = "0123456789ABCDEF";
  for (const char c : part) {
    if (must_encode(c)) {
      const auto byte = static_cast<unsigned char>(c);
      *out++ = '%';
      *out++ = digits[byte >> 4];
      *out++ = digits[byte & 15];
    } else {
      *out++ = c;
    }
  }
  return out;
}

// Appends ":" and `part`, percent-encoded, which has been checked against max_key_part.
inline void append_part(std::string& key, std::string_view part) {
  std::array<char, 3 * max_key_part> encoded;
  const char* const begin = encoded.data();
  const char* const end = encode(part, encoded.data());
  key.append(1, ':').append(begin, end);
}

// What the keys of one limiter have in common. The parts have been checked against max_key_part.
inline std::string key_head(std::string_view prefix, std::string_view tag, std::string_view name) {
  std::string head;
  head.append(prefix).append(tag);
  append_part(head, name);
  return head;
}

// A key in a buffer of its own, made once for each call without an allocation.
class key {
 public:
  // The parts have been checked against max_key_part.
  key(std::string_view head, scope by, std::string_view identity, std::string_view region) noexcept {
    char* out = buffer_.data();
    std::memcpy(out, head.data(), head.size());
    out += head.size();
    if (counts_identity(by)) {
      *out++ = ':';
      *out++ = '{';
      out = encode(identity, out);
      *out++ = '}';
    }
    if (counts_region(by)) {
      *out++ = ':';
      out = encode(region, out);
    }
    size_ = static_cast<std::size_t>(out - buffer_.data());
  }

  std::string_view view() const noexcept { return {buffer_.data(), size_}; }

 private:
  static constexpr std::size_t max_head = max_key_part + 16 + 3 * max_key_part;

  std::array<char, max_head + 2 * (3 * max_key_part + 3)> buffer_;
  std::size_t size_;
};

// The key that remembers a call's id, in the slot of the limit's own key. The parts have been checked against
// max_key_part. An id belongs to its identity and region, also where the limit's key leaves them out. Allocates.
inline std::string id_key(std::string_view limit_key, scope by, std::string_view id, std::string_view identity,
                          std::string_view region) {
  std::string key;
  if (counts_identity(by)) {
    key.append(limit_key);
  } else {
    key.append(1, '{').append(limit_key).append(1, '}');
  }
  key.append(1, ':');
  append_part(key, id);
  if (!counts_identity(by)) append_part(key, identity);
  if (!counts_region(by)) append_part(key, region);
  return key;
}

}  // namespace detail
}  // namespace ratelimit
