// A request as a command, and the reply to it as an outcome: pure functions, so that another client can carry them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <ratelimit/detail/scripts.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

inline const script& script_of(algorithm_id algorithm) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log:
      return scripts::sliding_log;
    case algorithm_id::sliding_counter:
      return scripts::sliding_counter;
    case algorithm_id::token_bucket:
      return scripts::token_bucket;
    case algorithm_id::fixed_window:
      break;
  }
  return scripts::fixed_window;
}

// The numbers an algorithm's script replies with after {allowed, now}.
inline std::size_t view_size(algorithm_id algorithm) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log:
      return 4;
    case algorithm_id::sliding_counter:
    case algorithm_id::token_bucket:
      return 3;
    case algorithm_id::fixed_window:
      break;
  }
  return 2;
}

enum class named_by : std::uint8_t {
  sha1,    // EVALSHA: 40 bytes, and the server must have seen the script
  source,  // EVAL: the whole text, which the server remembers
};

// Appends the one command that carries out `what`. The script's arguments are those lua/check.lua names.
inline void append_request(std::string& out, const request& what, named_by name) {
  if (what.op == operation::reset) {
    append_command(out, std::array<std::string_view, 2>{"DEL", what.key});
    return;
  }
  const script& code = script_of(what.algorithm);
  const bool by_source = name == named_by::source;
  const decimal now{what.now.value_or(0)}, cost{what.cost};
  const decimal limit{what.numbers.limit}, window{what.numbers.window}, refill{what.numbers.refill};
  append_command(out, std::array<std::string_view, 10>{by_source ? "EVAL" : "EVALSHA",
                                                       by_source ? code.source : code.sha1, "1", what.key,
                                                       what.op == operation::take   ? "take"
                                                       : what.op == operation::peek ? "peek"
                                                                                    : "refund",
                                                       what.now ? now.view() : std::string_view{}, cost.view(),
                                                       limit.view(), window.view(), refill.view()});
}

struct reading {
  outcome result{};
  bool unknown_script = false;  // NOSCRIPT: nothing was run, the server wants the source

  static reading failed(std::error_code why) { return {.result = {.error = why}}; }
  const std::error_code& error() const noexcept { return result.error; }
};

inline reading read_reply(const request& what, const redisReply& got) {
  const reading malformed = reading::failed(errc::protocol);
  if (is_error(got)) {
    const std::string_view text = text_of(got);
    return {.result = {.error = errc_of(text)}, .unknown_script = text.starts_with("NOSCRIPT")};
  }
  if (what.op == operation::reset)
    return got.type == REDIS_REPLY_INTEGER ? reading{.result = {.allowed = true}} : malformed;

  const std::size_t size = view_size(what.algorithm);
  if (got.type != REDIS_REPLY_ARRAY || got.elements != 2 + size) return malformed;
  for (std::size_t i = 0; i < got.elements; ++i) {
    if (got.element[i]->type != REDIS_REPLY_INTEGER) return malformed;
  }
  const long long allowed = got.element[0]->integer;
  if (allowed != 0 && allowed != 1) return malformed;
  reading made{.result = {.allowed = allowed == 1, .now = got.element[1]->integer}};
  for (std::size_t i = 0; i < size; ++i) made.result.view[i] = got.element[2 + i]->integer;
  return made;
}

}  // namespace ratelimit::detail
