// Commands as the protocol writes them (RESP2, redis.io/docs/reference/protocol-spec): pure text, no I/O.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <ratelimit/redis/options.hpp>

namespace ratelimit::detail {

// A whole number as text.
class decimal {
 public:
  explicit decimal(std::int64_t value) noexcept
      : size_{static_cast<std::size_t>(std::to_chars(text_, text_ + sizeof text_, value).ptr - text_)} {}
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[20];
  std::size_t size_;
};

// Appends one command. Every word goes with its length: no byte in it can end it or begin another.
inline void append_command(std::string& out, std::span<const std::string_view> words) {
  const auto count = [&out](char kind, std::size_t value) {
    out += kind;
    out.append(decimal{static_cast<std::int64_t>(value)}.view()).append("\r\n");
  };
  count('*', words.size());
  for (const std::string_view word : words) {
    count('$', word.size());
    out.append(word).append("\r\n");
  }
}

// Appends what a new connection must say before it is used. Returns the number of replies to it.
inline int append_handshake(std::string& out, const redis_options& chosen) {
  int count = 0;
  const auto say = [&](std::initializer_list<std::string_view> words) {
    append_command(out, {words.begin(), words.size()});
    ++count;
  };
  if (!chosen.username.empty()) {
    say({"AUTH", chosen.username, chosen.password});
  } else if (!chosen.password.empty()) {
    say({"AUTH", chosen.password});
  }
  if (chosen.database != 0) say({"SELECT", decimal{chosen.database}.view()});
  if (!chosen.client_name.empty()) say({"CLIENT", "SETNAME", chosen.client_name});
  return count;
}

}  // namespace ratelimit::detail
