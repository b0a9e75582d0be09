// One connection: dialled, introduced, and dropped at the first sign that it is out of step.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/redis/socket.hpp>

namespace ratelimit::detail {

struct answer {
  std::error_code error{};  // set: the replies that were not handed over will not come
  bool sent = true;         // false: the server certainly did not run the command, of which not every byte went out
};

// One user at a time. After an error the connection is closed, and open again only after dial().
class connection {
 public:
  // True when a command can be sent: the server has not closed the idle connection, nor said a word too many.
  bool is_usable() const noexcept { return socket_.is_open() && !has_leftover() && socket_.is_quiet(); }
  bool is_open() const noexcept { return socket_.is_open(); }
  void close() noexcept { socket_.close(); }

  // Connects anew, and gives every setting again that a connection has.
  std::error_code dial(const redis_options& to, const deadline& until) {
    close();
    reader_ = make_reader();
    if (!reader_) return errc::protocol;
    if (const std::error_code failed = socket_.connect(to, until)) return failed;
    const std::error_code failed = introduce(to, until);
    if (failed) close();
    return failed;
  }

  // Sends `commands`, and hands each of their replies to `take`, in order.
  template <class Take>
  answer ask(std::string_view commands, std::size_t replies, const deadline& until, Take take) {
    if (until.passed()) return {.error = errc::timeout, .sent = false};
    const std::error_code unsent = socket_.send(commands, until);
    answer made{.error = unsent, .sent = !unsent};
    // A server that turns a client away says why before it closes, and its words, the only ones then, may still be
    // there to read.
    for (std::size_t left = replies; left > 0 && made.error != errc::timeout; --left) {
      const auto [failed, got] = receive(until);
      if (!failed) take(*got);
      made.error = unsent && (failed || left > 1) ? unsent : failed;
      if (failed || unsent) break;
    }
    if (made.error || unsent) close();
    return made;
  }

 private:
  std::error_code introduce(const redis_options& to, const deadline& until) {
    std::string words;
    int replies = append_handshake(words, to);
    if (replies == 0) return {};
    const std::error_code unsent = socket_.send(words, until);
    if (unsent == errc::timeout) return unsent;
    for (; replies > 0; --replies) {
      const auto [failed, got] = receive(until);
      if (failed) return unsent ? unsent : failed;
      if (is_error(*got)) return handshake_errc_of(text_of(*got));
      if (got->type != REDIS_REPLY_STATUS) return errc::protocol;
    }
    return unsent;
  }

  std::pair<std::error_code, reply> receive(const deadline& until) {
    bool late = false;
    for (;;) {
      void* raw = nullptr;
      if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) return {errc::protocol, nullptr};
      if (raw != nullptr) return {std::error_code{}, reply{static_cast<redisReply*>(raw)}};
      // After the deadline there is one last look at what has come, not one for each byte that drips in.
      if (late) return {errc::timeout, nullptr};
      late = until.passed();
      char bytes[4096];
      std::size_t count = 0;
      if (const std::error_code failed = socket_.receive(bytes, sizeof bytes, count, until)) return {failed, nullptr};
      if (redisReaderFeed(reader_.get(), bytes, count) != REDIS_OK) return {errc::protocol, nullptr};
    }
  }

  bool has_leftover() const noexcept { return reader_->pos != reader_->len; }

  socket socket_;
  reader reader_;
};

}  // namespace ratelimit::detail
