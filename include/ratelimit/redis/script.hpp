// A request as a command: a pure function, so that another client can carry it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/detail/scripts.hpp>
#include <ratelimit/redis/command.hpp>
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

}  // namespace ratelimit::detail
