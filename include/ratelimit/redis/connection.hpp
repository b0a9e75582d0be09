// One connection: dialled, introduced, and dropped at the first sign that it is out of step.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/redis/stream.hpp>

namespace ratelimit::detail {

// One user at a time. After an error it must be closed, and is open again only after dial().
class connection {
 public:
  // True when a command can be sent: the server has not closed the idle connection, nor said a word too many.
  bool is_usable() const noexcept { return is_open() && !has_leftover() && socket_.is_quiet(); }
  bool is_open() const noexcept { return socket_.is_open(); }
  // True when bytes have come that are no whole reply.
  bool has_leftover() const noexcept { return reader_->pos != reader_->len; }
  void close() noexcept { socket_.close(); }

  // Connects anew, and gives every setting again that a connection has.
  std::error_code dial(const redis_options& to, const deadline& until) {
    close();
    reader_ = make_reader();
    if (!reader_) return errc::protocol;
    std::error_code failed = socket_.connect(to, until);
    if (!failed) failed = introduce(to, until);
    if (failed) close();
    return failed;
  }

  // Takes off `bytes` what went out, which is not all of them when there is an error.
  std::error_code send(std::string_view& bytes, const deadline& until) { return socket_.send(bytes, until); }

  // Waits until something has come, if only a part of a reply.
  std::error_code receive(const deadline& until) {
    char bytes[16 * 1024];
    std::size_t count = 0;
    if (const std::error_code failed = socket_.receive(bytes, sizeof bytes, count, until)) return failed;
    return redisReaderFeed(reader_.get(), bytes, count) == REDIS_OK ? std::error_code{} : errc::protocol;
  }

  // The next of what has come; empty when there is no whole one yet.
  std::error_code next(reply& got) {
    void* raw = nullptr;
    if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) return errc::protocol;
    got.reset(static_cast<redisReply*>(raw));
    return {};
  }

 private:
  std::error_code introduce(const redis_options& to, const deadline& until) {
    std::string words;
    int replies = append_handshake(words, to);
    if (replies == 0) return {};
    std::string_view unsent = words;
    const std::error_code cut = send(unsent, until);
    if (cut == errc::timeout) return cut;
    // A server that turns a client away says why before it closes, and its words may still be there to read.
    for (; replies > 0; --replies) {
      reply got;
      if (const std::error_code failed = await(got, until)) return cut ? cut : failed;
      if (is_error(*got)) return handshake_errc_of(text_of(*got));
      if (got->type != REDIS_REPLY_STATUS) return errc::protocol;
    }
    return cut;
  }

  // After the deadline there is one last look at what has come, not one for each byte that drips in.
  std::error_code await(reply& got, const deadline& until) {
    for (bool late = false;;) {
      if (const std::error_code failed = next(got)) return failed;
      if (got) return {};
      if (late) return errc::timeout;
      late = until.passed();
      if (const std::error_code failed = receive(until)) return failed;
    }
  }

  stream socket_;
  reader reader_;
};

}  // namespace ratelimit::detail
