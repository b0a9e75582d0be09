// The reply to a request as an outcome: pure functions, so that another client can carry them.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include <ratelimit/detail/integer.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// What an error reply says of asking again. In each case nothing was run.
enum class again : std::uint8_t {
  no,
  by_source,  // NOSCRIPT: the server wants the source
  later,      // a refusal that passes by itself
};

inline again again_after(std::string_view error) noexcept {
  if (error.starts_with("NOSCRIPT")) return again::by_source;
  return is_passing(error) ? again::later : again::no;
}

struct reading {
  outcome result{};
  again ask = again::no;

  static reading failed(std::error_code why) { return {.result = {.error = why}}; }
  const std::error_code& error() const noexcept { return result.error; }
};

// How many numbers of its state an algorithm's script replies with. A log that counted the call leaves out two.
inline bool is_state_size(algorithm_id algorithm, std::size_t size) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log:
    case algorithm_id::compact_log: return size >= 2 && size <= 4;
    case algorithm_id::sliding_counter:
    case algorithm_id::token_bucket: return size == 3;
    case algorithm_id::fixed_window: break;
  }
  return size == 2;
}

// The state that a script told by one number, as lua/check.lua and the algorithms' files describe it; nothing when the
// verdict cannot be true of it: then it was no script of ours that answered.
inline std::optional<outcome> read_short(const request& what, std::int64_t number, std::int64_t now) {
  if (number > max_exact || number < -1 - max_exact) return {};
  constexpr std::int64_t half = 1 << 26;  // counts of 26 bits each
  const bool allowed = number >= 0;
  const std::int64_t n = allowed ? number : -1 - number;
  const auto [limit, window, refill] = what.numbers;
  outcome made{.allowed = allowed, .now = now};
  std::int64_t least = 0;  // units in force at least, and at most
  std::int64_t most = 0;
  switch (what.algorithm) {
    case algorithm_id::sliding_log:
    case algorithm_id::compact_log:
      least = most = n / window;
      made.view = {most, now - n % window, now, now};
      break;
    case algorithm_id::sliding_counter:
      least = n % half;
      most = least + n / half;
      made.view = {floor_to(now, window), n % half, n / half, now};
      break;
    case algorithm_id::token_bucket:
      if (n / window > limit) return {};
      least = most = limit - n / window;
      made.view = {n / window, n % window, now, now};
      break;
    case algorithm_id::fixed_window:
      least = most = n;
      made.view = {floor_to(now, window), n, now, now};
      break;
  }
  // A refund's verdict is that of before.
  const bool possible = what.op == operation::refund || (allowed ? least <= limit : most > limit - what.cost);
  return possible ? std::optional{made} : std::nullopt;
}

// A refusal that a compact log told by the times of its oldest and its newest entry.
inline std::optional<outcome> read_full(const request& what, std::int64_t oldest, std::int64_t newest,
                                        std::int64_t now) {
  const auto [limit, window, refill] = what.numbers;
  const std::int64_t used = limit + 1 - what.cost;
  const bool asked = what.op == operation::take || what.op == operation::peek;
  const bool in_force = oldest <= newest && oldest > std::max(now, newest) - window;
  if (what.algorithm != algorithm_id::compact_log || !asked || used < 1 || !in_force) return {};
  return outcome{.now = now, .view = {used, oldest, newest, oldest}};
}

// Puts the whole numbers of a text, with one space between them, into `into`. How many there are; 0 when the text is
// anything else.
inline std::size_t split_numbers(std::string_view text, std::span<std::int64_t> into) {
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  for (std::size_t i = 0; i < into.size(); ++i) {
    const auto [after, failed] = std::from_chars(at, end, into[i]);
    if (failed != std::errc{} || into[i] > max_exact || into[i] < -max_exact) return 0;
    if (after == end) return i + 1;
    if (*after != ' ') return 0;
    at = after + 1;
  }
  return 0;
}

// What a script told by a text, which begins with the server's time where the request has none.
inline std::optional<outcome> read_text(const request& what, std::string_view text, std::optional<std::int64_t> now) {
  std::array<std::int64_t, 4> all{};
  std::span<const std::int64_t> numbers = std::span{all}.first(split_numbers(text, all));
  if (!now) {
    constexpr std::int64_t second = 1'000'000;
    if (numbers.size() < 3 || numbers[0] < 0 || numbers[0] > max_exact / second || numbers[1] < 0 ||
        numbers[1] >= second)
      return {};
    now = numbers[0] * second + numbers[1];
    numbers = numbers.subspan(2);
    if (numbers.size() == 1) return read_short(what, numbers[0], *now);
  }
  return numbers.size() == 2 ? read_full(what, numbers[0], numbers[1], *now) : std::nullopt;
}

inline reading read_reply(const request& what, const redisReply& got) {
  const reading malformed = reading::failed(errc::protocol);
  if (is_error(got)) {
    const std::string_view text = text_of(got);
    return {.result = {.error = errc_of(text)}, .ask = again_after(text)};
  }
  if (what.op == operation::reset)
    return got.type == REDIS_REPLY_INTEGER ? reading{.result = {.allowed = true}} : malformed;

  const auto told = [&malformed](const std::optional<outcome>& seen) {
    return seen ? reading{.result = *seen} : malformed;
  };
  if (got.type == REDIS_REPLY_INTEGER && what.now) return told(read_short(what, got.integer, *what.now));
  if (got.type == REDIS_REPLY_STRING) return told(read_text(what, text_of(got), what.now));
  if (!holds_numbers(got) || got.elements < 1) return malformed;
  if (got.elements == 2 && !what.now) return told(read_short(what, integer_at(got, 1), integer_at(got, 0)));
  const std::int64_t flags = integer_at(got, 0);
  if (flags < 0 || flags > 7) return malformed;
  const std::size_t at = (flags & 2) != 0 ? 3 : 1;  // where the state begins
  if (got.elements < at || !is_state_size(what.algorithm, got.elements - at)) return malformed;
  if (at == 1 && !what.now) return malformed;
  reading made{.result = {.allowed = (flags & 1) != 0,
                          .repeated = (flags & 4) != 0,
                          .now = at == 3 ? integer_at(got, 1) : *what.now}};
  if (at == 3) made.result.blocked = integer_at(got, 2);
  made.result.view.fill(made.result.now);
  for (std::size_t i = at; i < got.elements; ++i) made.result.view[i - at] = integer_at(got, i);
  return made;
}

struct group_reading {
  std::error_code failure{};
  again ask = again::no;

  static group_reading failed(std::error_code why) { return {.failure = why}; }
  const std::error_code& error() const noexcept { return failure; }
};

// What lua/all_of.lua tells of one limit.
inline std::error_code read_part(const request& what, const redisReply& got, std::int64_t now, outcome& out) {
  if (got.type != REDIS_REPLY_ARRAY) {
    const std::optional<outcome> seen = got.type == REDIS_REPLY_INTEGER  ? read_short(what, got.integer, now)
                                        : got.type == REDIS_REPLY_STRING ? read_text(what, text_of(got), now)
                                                                         : std::nullopt;
    if (!seen) return errc::protocol;
    out = *seen;
    return {};
  }
  if (!holds_numbers(got) || got.elements != 6) return errc::protocol;
  const std::int64_t flags = integer_at(got, 0);
  if ((flags & ~std::int64_t{5}) != 0) return errc::protocol;
  out = {.allowed = (flags & 1) != 0, .repeated = (flags & 4) != 0, .now = now, .blocked = integer_at(got, 1)};
  for (std::size_t n = 0; n < 4; ++n) out.view[n] = integer_at(got, 2 + n);
  return {};
}

// One outcome for each request of a group, all with the error if there is one.
inline group_reading read_group(std::span<const request> what, const redisReply& got, std::span<outcome> out) {
  if (what.size() == 1) {
    const reading one = read_reply(what.front(), got);
    out.front() = one.result;
    return {.failure = one.error(), .ask = one.ask};
  }
  group_reading made;
  if (is_error(got)) {
    const std::string_view text = text_of(got);
    made = {.failure = errc_of(text), .ask = again_after(text)};
  } else if (got.type != REDIS_REPLY_ARRAY || got.elements != 1 + what.size() || !is_number(*got.element[0])) {
    made.failure = errc::protocol;
  }
  for (std::size_t i = 0; i < what.size() && !made.failure; ++i)
    made.failure = read_part(what[i], *got.element[i + 1], integer_at(got, 0), out[i]);
  if (made.failure)
    for (outcome& o : out) o = {.error = made.failure};
  return made;
}

}  // namespace ratelimit::detail
