// A request as a command, and the reply to it as an outcome: pure functions, so that another client can carry them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <ratelimit/detail/scripts.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

inline const script& script_of(algorithm_id algorithm) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log: return scripts::sliding_log;
    case algorithm_id::compact_log: return scripts::compact_log;
    case algorithm_id::sliding_counter: return scripts::sliding_counter;
    case algorithm_id::token_bucket: return scripts::token_bucket;
    case algorithm_id::fixed_window: break;
  }
  return scripts::fixed_window;
}

// The numbers of its state that an algorithm's script replies with.
inline std::size_t view_size(algorithm_id algorithm) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log:
    case algorithm_id::compact_log: return 4;
    case algorithm_id::sliding_counter:
    case algorithm_id::token_bucket: return 3;
    case algorithm_id::fixed_window: break;
  }
  return 2;
}

inline std::string_view word_of(operation op) noexcept {
  switch (op) {
    case operation::peek: return "peek";
    case operation::refund: return "refund";
    case operation::block: return "block";
    case operation::take:
    case operation::reset: break;
  }
  return "take";
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
  const bool has_id = !what.once.empty();
  const decimal now{what.now.value_or(0)}, cost{what.cost}, taken{what.taken.value_or(0)}, span{what.once_for};
  const decimal limit{what.numbers.limit}, window{what.numbers.window}, refill{what.numbers.refill};
  std::array<std::string_view, 13> words;
  std::size_t size = 0;
  for (const std::string_view word :
       {by_source ? std::string_view{"EVAL"} : std::string_view{"EVALSHA"}, by_source ? code.source : code.sha1,
        has_id ? std::string_view{"2"} : std::string_view{"1"}, what.key})
    words[size++] = word;
  if (has_id) words[size++] = what.once;
  for (const std::string_view word : {word_of(what.op), what.now ? now.view() : std::string_view{}, cost.view(),
                                      limit.view(), window.view(), refill.view()})
    words[size++] = word;
  if (what.taken || has_id) words[size++] = what.taken ? taken.view() : std::string_view{};
  if (has_id) words[size++] = span.view();
  append_command(out, std::span{words}.first(size));
}

// Appends the one command that carries out `what` together, all or nothing. The arguments are those of lua/all_of.lua.
inline void append_group(std::string& out, std::span<const request> what, named_by name) {
  if (what.size() == 1) return append_request(out, what.front(), name);
  const request& first = what.front();
  const bool by_source = name == named_by::source;
  const bool has_id = !first.once.empty();
  const decimal keys{static_cast<std::int64_t>(what.size() + (has_id ? 1 : 0))};
  const decimal now{first.now.value_or(0)}, span{first.once_for};
  std::vector<std::string_view> words{by_source ? "EVAL" : "EVALSHA",
                                      by_source ? scripts::all_of.source : scripts::all_of.sha1, keys.view()};
  for (const request& r : what) words.push_back(r.key);
  if (has_id) words.push_back(first.once);
  words.push_back(first.now ? now.view() : std::string_view{});
  words.push_back(has_id ? span.view() : std::string_view{});
  std::vector<std::array<decimal, 5>> numbers;
  numbers.reserve(what.size());
  for (const request& r : what) {
    const auto& [cost, limit, window, refill, taken] =
        numbers.emplace_back(std::array{decimal{r.cost}, decimal{r.numbers.limit}, decimal{r.numbers.window},
                                        decimal{r.numbers.refill}, decimal{r.taken.value_or(0)}});
    words.insert(words.end(),
                 {script_of(r.algorithm).name, word_of(r.op), r.binding ? "1" : "0", cost.view(), limit.view(),
                  window.view(), refill.view(), r.taken ? taken.view() : std::string_view{}});
  }
  append_command(out, words);
}

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

inline reading read_reply(const request& what, const redisReply& got) {
  const reading malformed = reading::failed(errc::protocol);
  if (is_error(got)) {
    const std::string_view text = text_of(got);
    return {.result = {.error = errc_of(text)}, .ask = again_after(text)};
  }
  if (what.op == operation::reset)
    return got.type == REDIS_REPLY_INTEGER ? reading{.result = {.allowed = true}} : malformed;

  const std::size_t size = view_size(what.algorithm);
  if (!holds_integers(got, 3 + size) || !is_flag(got, 0)) return malformed;
  reading made{
      .result = {.allowed = integer_at(got, 0) == 1, .now = integer_at(got, 1), .blocked = integer_at(got, 2)}};
  for (std::size_t i = 0; i < size; ++i) made.result.view[i] = integer_at(got, 3 + i);
  return made;
}

struct group_reading {
  std::error_code failure{};
  again ask = again::no;

  static group_reading failed(std::error_code why) { return {.failure = why}; }
  const std::error_code& error() const noexcept { return failure; }
};

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
  } else if (!holds_integers(got, 1 + 6 * what.size())) {
    made.failure = errc::protocol;
  }
  for (std::size_t i = 0; i < what.size() && !made.failure; ++i) {
    const std::size_t at = 1 + 6 * i;
    if (!is_flag(got, at)) made.failure = errc::protocol;
    out[i] = {.allowed = integer_at(got, at) == 1, .now = integer_at(got, 0), .blocked = integer_at(got, at + 1)};
    for (std::size_t n = 0; n < 4; ++n) out[i].view[n] = integer_at(got, at + 2 + n);
  }
  if (made.failure)
    for (outcome& o : out) o = {.error = made.failure};
  return made;
}

}  // namespace ratelimit::detail
