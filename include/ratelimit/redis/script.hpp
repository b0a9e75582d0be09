// A request as a command, and the reply to it as an outcome: pure functions, so that another client can carry them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/detail/integer.hpp>
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
  const decimal now{what.now.value_or(0)}, limit{what.numbers.limit}, window{what.numbers.window};
  const decimal refill{what.numbers.refill}, cost{what.cost}, taken{what.taken.value_or(0)}, span{what.once_for};
  std::array<std::string_view, 13> words{by_source ? "EVAL" : "EVALSHA", by_source ? code.source : code.sha1,
                                         has_id ? "2" : "1", what.key};
  std::size_t size = 4;
  if (has_id) words[size++] = what.once;
  // What has its default is left out from the end: each argument costs the server about as much as a look into a table.
  std::size_t last = size + 3;
  const auto add = [&](std::string_view word, bool needed) {
    words[size++] = word;
    if (needed) last = size;
  };
  add(what.now ? now.view() : std::string_view{}, true);
  add(limit.view(), true);
  add(window.view(), true);
  add(what.numbers.refill > 0 ? refill.view() : std::string_view{}, what.numbers.refill > 0);
  add(cost.view(), what.cost != 1);
  add(what.op == operation::take ? std::string_view{} : word_of(what.op), what.op != operation::take);
  add(what.taken ? taken.view() : std::string_view{}, what.taken.has_value());
  add(has_id ? span.view() : std::string_view{}, has_id);
  append_command(out, std::span{words}.first(last));
}

// Appends the one command that carries out `what` together, all or nothing. The arguments are those of lua/all_of.lua.
inline void append_group(std::string& out, std::span<const request> what, named_by name) {
  if (what.size() == 1) return append_request(out, what.front(), name);
  const request& first = what.front();
  // A limit that is only looked at beside others that take, or for another cost than theirs, is so for a cost of 1.
  const request& lead = *std::max_element(what.begin(), what.end(), [](const request& a, const request& b) {
    return std::pair{a.op != operation::peek, a.cost} < std::pair{b.op != operation::peek, b.cost};
  });
  const bool by_source = name == named_by::source;
  const bool has_id = !first.once.empty();
  const decimal keys{static_cast<std::int64_t>(what.size() + (has_id ? 1 : 0))};
  const decimal now{first.now.value_or(0)}, cost{lead.cost}, taken{lead.taken.value_or(0)}, span{first.once_for};
  std::vector<std::string_view> words{by_source ? "EVAL" : "EVALSHA",
                                      by_source ? scripts::all_of.source : scripts::all_of.sha1, keys.view()};
  for (const request& r : what) words.push_back(r.key);
  if (has_id) words.push_back(first.once);
  words.insert(words.end(),
               {first.now ? now.view() : std::string_view{}, word_of(lead.op), cost.view(),
                lead.taken ? taken.view() : std::string_view{}, has_id ? span.view() : std::string_view{}});
  std::vector<std::array<decimal, 3>> numbers;
  numbers.reserve(what.size());
  for (const request& r : what) {
    const auto& [limit, window, refill] = numbers.emplace_back(
        std::array{decimal{r.numbers.limit}, decimal{r.numbers.window}, decimal{r.numbers.refill}});
    const bool only_looks = r.op != lead.op || r.cost != lead.cost;
    words.insert(words.end(), {script_of(r.algorithm).name,
                               only_looks  ? "peek"
                               : r.binding ? "binding"
                                           : "shadow",
                               limit.view(), window.view(), refill.view()});
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

inline reading read_reply(const request& what, const redisReply& got) {
  const reading malformed = reading::failed(errc::protocol);
  if (is_error(got)) {
    const std::string_view text = text_of(got);
    return {.result = {.error = errc_of(text)}, .ask = again_after(text)};
  }
  if (what.op == operation::reset)
    return got.type == REDIS_REPLY_INTEGER ? reading{.result = {.allowed = true}} : malformed;

  const auto brief = [&](std::int64_t number, std::int64_t now) {
    const std::optional<outcome> seen = read_short(what, number, now);
    return seen ? reading{.result = *seen} : malformed;
  };
  if (got.type == REDIS_REPLY_INTEGER && what.now) return brief(got.integer, *what.now);
  if (!holds_integers(got) || got.elements < 1) return malformed;
  if (got.elements == 2 && !what.now) return brief(integer_at(got, 1), integer_at(got, 0));
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
  if (got.type == REDIS_REPLY_INTEGER) {
    const std::optional<outcome> seen = read_short(what, got.integer, now);
    if (!seen) return errc::protocol;
    out = *seen;
    return {};
  }
  if (!holds_integers(got) || got.elements != 6) return errc::protocol;
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
  } else if (got.type != REDIS_REPLY_ARRAY || got.elements != 1 + what.size() ||
             got.element[0]->type != REDIS_REPLY_INTEGER) {
    made.failure = errc::protocol;
  }
  for (std::size_t i = 0; i < what.size() && !made.failure; ++i)
    made.failure = read_part(what[i], *got.element[i + 1], integer_at(got, 0), out[i]);
  if (made.failure)
    for (outcome& o : out) o = {.error = made.failure};
  return made;
}

}  // namespace ratelimit::detail
