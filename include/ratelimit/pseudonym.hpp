// Keys that tell nobody who they belong to: an identity such as an e-mail address becomes 24 hex digits before it
// reaches a limiter, and so Redis, a log or a metric. Needs OpenSSL's libcrypto, 1.1 or newer.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <ratelimit/clock.hpp>
#include <ratelimit/detail/integer.hpp>

namespace ratelimit {

namespace detail {

// Secrets, wiped with the object. They are kept apart from std::string, whose moves may leave copies behind.
struct key_ring {
  std::vector<std::vector<unsigned char>> keys;

  key_ring() = default;
  key_ring(const key_ring&) = delete;
  key_ring& operator=(const key_ring&) = delete;
  ~key_ring() {
    for (auto& key : keys) OPENSSL_cleanse(key.data(), key.size());
  }
};

template <class Secrets>
std::shared_ptr<const key_ring> copy_secrets(const Secrets& secrets) {
  const auto ring = std::make_shared<key_ring>();
  for (const std::string_view secret : secrets) {
    if (secret.size() < 16 || secret.size() > 65'536) {
      throw std::invalid_argument{"ratelimit: secret " + std::to_string(ring->keys.size() + 1) + " of " +
                                  std::to_string(secrets.size()) + ": " + std::to_string(secret.size()) +
                                  " bytes are not within 16 and 65536"};
    }
    ring->keys.emplace_back(secret.begin(), secret.end());
  }
  if (ring->keys.empty()) throw std::invalid_argument{"ratelimit: secrets: none is given"};
  return ring;
}

}  // namespace detail

// pseudonym hide{secret};
// limiter.check(hide(email), region);
//
// A pseudonym is the first 12 bytes of HMAC-SHA256 (RFC 2104), keyed with the secret, over the period's number as 8
// bytes, the most significant first, and then the data. The period's number is the time since the Unix epoch divided by
// `rotation`, rounded down: with a day, it changes at midnight UTC. 96 bits: that any two of a billion identities share
// a pseudonym has a chance of about one in 10^11. The data is taken as it is. Bring it into one form first, lower case
// say, or each spelling is counted apart; and refuse it when empty, since its pseudonym is not.
//
// What rotation means for a limit: when a period ends, an identity gets a new key, and with it a fresh quota. So within
// one window around midnight it may use up to twice the limit, a refusal ends there at the latest, and a window longer
// than the period counts one period only. Choose a rotation many times as long as the window. The old keys are not met
// again; they go when their lifetime ends. Servers whose clocks differ rotate apart by as much.
//
// The secret is changed by hand by putting a new one first, which gives fresh quotas as midnight does. The older ones
// stay in the list for as long as all() shall find what was stored under them.
//
// Thread-safe. Copies share the secrets, which are wiped from memory with the last copy; what the caller passed in is
// the caller's to wipe. The clock must know the time itself: server_clock does not, and is refused.
template <time_source Clock = system_clock>
requires std::convertible_to<decltype(std::declval<const Clock&>().now()), time_point>
class pseudonym {
 public:
  // A secret is 16 bytes to 64 KiB, and should be random; rotation is at least 1 s. Anything else, or no secret at all,
  // throws std::invalid_argument, which does not show the secret.
  explicit pseudonym(std::string_view secret, std::chrono::seconds rotation = std::chrono::days{1}, Clock clock = {})
      : pseudonym{detail::copy_secrets(std::initializer_list<std::string_view>{secret}), rotation, std::move(clock)} {}
  explicit pseudonym(std::initializer_list<std::string_view> secrets,
                     std::chrono::seconds rotation = std::chrono::days{1}, Clock clock = {})
      : pseudonym{detail::copy_secrets(secrets), rotation, std::move(clock)} {}
  explicit pseudonym(std::span<const std::string> secrets, std::chrono::seconds rotation = std::chrono::days{1},
                     Clock clock = {})
      : pseudonym{detail::copy_secrets(secrets), rotation, std::move(clock)} {}

  // This period's pseudonym under the first secret: 24 lower-case hex digits. Throws std::bad_alloc, and
  // std::runtime_error should libcrypto refuse; the data itself is never the answer.
  std::string operator()(std::string_view data) const { return digits(secrets_->keys.front(), message(data)); }

  // This period's pseudonyms under every secret, in the order of the secrets: to find or reset what is stored under an
  // older one.
  std::vector<std::string> all(std::string_view data) const {
    const std::string text = message(data);
    std::vector<std::string> out;
    for (const auto& key : secrets_->keys) out.push_back(digits(key, text));
    return out;
  }

 private:
  pseudonym(std::shared_ptr<const detail::key_ring> secrets, std::chrono::seconds rotation, Clock clock)
      : secrets_{std::move(secrets)}, rotation_{rotation.count()}, clock_{std::move(clock)} {
    if (rotation_ < 1) {
      throw std::invalid_argument{"ratelimit: rotation: " + std::to_string(rotation_) + "s is not at least 1 s"};
    }
  }

  // The period's number has a fixed length, so no two pairs of period and data make the same message.
  std::string message(std::string_view data) const {
    const time_point now = clock_.now();
    const std::int64_t second = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
    const auto period = static_cast<std::uint64_t>(detail::floor_to(second, rotation_) / rotation_);
    std::string text;
    text.reserve(8 + data.size());
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(period >> shift & 0xFF);
    return text += data;
  }

  static std::string digits(const std::vector<unsigned char>& key, const std::string& text) {
    constexpr char hex[] = "0123456789abcdef";
    unsigned char mac[EVP_MAX_MD_SIZE];
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, nullptr) == nullptr) {
      throw std::runtime_error{"ratelimit: libcrypto refused HMAC-SHA256"};
    }
    std::string out;
    for (std::size_t i = 0; i < 12; ++i) out += {hex[mac[i] >> 4], hex[mac[i] & 15]};
    return out;
  }

  std::shared_ptr<const detail::key_ring> secrets_;
  std::int64_t rotation_;  // seconds
  Clock clock_;
};

}  // namespace ratelimit
