// What a connection needs of an encryption library: bytes in, bytes out, and no I/O. See redis/tls.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace ratelimit {

namespace detail {

// One connection's encryption. One user at a time.
class tls_session {
 public:
  enum class step : std::uint8_t { done, needs_more, failed };

  tls_session() = default;
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;
  virtual ~tls_session() = default;

  // Goes on with the handshake. What must be sent to the peer is appended to `out`, also when it has failed.
  virtual step shake_hands(std::string& out) = 0;
  // What came from the peer. False when there is no memory.
  virtual bool put(std::string_view encrypted) = 0;
  // Appends to `out` what must be sent. False: the session is dead.
  virtual bool encrypt(std::string_view plain, std::string& out) = 0;
  // Of what was put, what is in it for us; none when that is no whole record yet. errc::closed: the peer has ended.
  virtual std::error_code decrypt(char* into, std::size_t room, std::size_t& got) = 0;
  // True when something was put that decrypt() has not handed out.
  virtual bool has_leftover() const noexcept = 0;
};

// The settings of many connections. Thread-safe.
class tls_engine {
 public:
  tls_engine() = default;
  tls_engine(const tls_engine&) = delete;
  tls_engine& operator=(const tls_engine&) = delete;
  virtual ~tls_engine() = default;

  // Empty when there is no memory.
  virtual std::unique_ptr<tls_session> begin(const std::string& host) const = 0;
};

}  // namespace detail

// How connections are encrypted; empty: not at all. make_tls() in redis/tls.hpp makes one.
using tls_context = std::shared_ptr<const detail::tls_engine>;

namespace detail {

// What rediss:// means: make_tls() without options, in a program that includes redis/tls.hpp.
inline tls_context (*default_tls)() = nullptr;

}  // namespace detail

}  // namespace ratelimit
