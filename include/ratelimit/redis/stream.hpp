// A socket, encrypted where the options say so.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/socket.hpp>
#include <ratelimit/redis/tls_engine.hpp>

namespace ratelimit::detail {

// The members of socket. The deadline covers the handshake as well, and nothing is ever sent in plain text instead.
class stream {
 public:
  bool is_open() const noexcept { return socket_.is_open(); }
  // Without a farewell to the peer: a forked child closes its copy, and must not end its parent's session.
  void close() noexcept { socket_.close(); }

  std::error_code connect(const redis_options& to, const deadline& until) {
    session_.reset();
    encrypted_.clear();
    ahead_ = 0;
    if (const std::error_code failed = socket_.connect(to, until); failed || !to.tls) return failed;
    session_ = to.tls->begin(to.host);
    const std::error_code failed = session_ ? shake_hands(until) : make_error_code(errc::tls);
    if (failed) close();
    return failed;
  }

  bool is_quiet() const noexcept { return !(session_ && session_->has_leftover()) && socket_.is_quiet(); }

  std::error_code send(std::string_view& bytes, const deadline& until) {
    if (!session_) return socket_.send(bytes, until);
    if (!session_->encrypt(bytes.substr(ahead_), encrypted_)) return errc::tls;
    ahead_ = 0;
    const std::error_code failed = flush(until);
    // What is encrypted cannot be taken back. So all of it counts as gone out but the last byte, which makes the caller
    // come back with the rest.
    if (failed && !bytes.empty()) ahead_ = 1;
    bytes.remove_prefix(bytes.size() - ahead_);
    return failed;
  }

  std::error_code receive(char* into, std::size_t room, std::size_t& got, const deadline& until) {
    if (!session_) return socket_.receive(into, room, got, until);
    for (bool late = false;;) {
      const std::error_code failed = session_->decrypt(into, room, got);
      if (failed || got > 0) return failed;
      if (late) return errc::timeout;
      late = until.passed();
      if (const std::error_code lost = take_in(until)) return lost;
    }
  }

 private:
  std::error_code shake_hands(const deadline& until) {
    for (bool late = false;;) {
      const tls_session::step now = session_->shake_hands(encrypted_);
      const std::error_code unsent = flush(until);
      if (now == tls_session::step::failed) return errc::tls;
      if (unsent || now == tls_session::step::done) return unsent;
      if (late) return errc::timeout;
      late = until.passed();
      if (const std::error_code lost = take_in(until)) return lost;
    }
  }

  std::error_code flush(const deadline& until) {
    std::string_view rest = encrypted_;
    const std::error_code failed = socket_.send(rest, until);
    encrypted_.erase(0, encrypted_.size() - rest.size());
    return failed;
  }

  std::error_code take_in(const deadline& until) {
    char bytes[16 * 1024];
    std::size_t count = 0;
    if (const std::error_code failed = socket_.receive(bytes, sizeof bytes, count, until)) return failed;
    return session_->put({bytes, count}) ? std::error_code{} : errc::tls;
  }

  socket socket_{};
  std::unique_ptr<tls_session> session_{};
  std::string encrypted_{};  // that has not gone out
  std::size_t ahead_ = 0;    // of the bytes that the caller still holds, how many are in encrypted_ already
};

}  // namespace ratelimit::detail
