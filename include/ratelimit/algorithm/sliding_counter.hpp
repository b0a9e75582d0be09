// The sliding counter's arithmetic: lua/sliding_counter.lua in C++, in the same reading order.
//
// Two windows aligned to the epoch; used = current + floor(previous * (window - elapsed) / window), the estimate that
// Cloudflare published as "How we built rate limiting capable of scaling to millions of domains".
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

struct sliding_counter {
  static constexpr algorithm_id id = algorithm_id::sliding_counter;
  static constexpr std::string_view tag = "counter";

  struct state {
    std::int64_t start = 0;     // of the current window
    std::int64_t current = 0;   // units taken in it
    std::int64_t previous = 0;  // units taken in the one before
  };

  static state look(const rule& numbers, const state& stored, std::int64_t now) {
    const std::int64_t current = detail::floor_to(now, numbers.window);
    const std::int64_t start = detail::floor_to(stored.start, numbers.window);
    if (empty(stored)) return {current, 0, 0};
    if (start >= current) return {start, stored.current, stored.previous};
    if (current - start == numbers.window) return {current, 0, stored.current};
    return {current, 0, 0};
  }

  // `open`: no block refuses the call.
  static stepped step(const request& what, operation op, state& stored, std::int64_t now, bool open) {
    const rule& numbers = what.numbers;
    state s = look(numbers, stored, now);
    const bool fits = what.cost <= numbers.limit - used(numbers, s, now);
    bool wrote = op == operation::block;
    if (op == operation::take && fits && open) {
      s.current += what.cost;
      wrote = true;
    } else if (op == operation::refund) {
      const bool before = what.taken && *what.taken < s.start && s.start <= now;  // counted before this window began
      const bool weighs = !before || *what.taken >= s.start - numbers.window;
      std::int64_t& counted = before ? s.previous : s.current;
      const std::int64_t given = weighs ? std::min(what.cost, counted) : 0;
      counted -= given;
      wrote = given > 0;
    }
    if (wrote) stored = s;
    return {{.allowed = fits && open, .now = now, .view = {s.start, s.current, s.previous}}, wrote};
  }

  static bool empty(const state& s) { return s.current == 0 && s.previous == 0; }
  static bool ahead(const state& s, std::int64_t now) { return s.start > now; }
  // To the end of the next window: until then the current one still weighs.
  static std::int64_t lifetime(const rule& numbers, const state& s, std::int64_t now) {
    return std::min(s.start + 2 * numbers.window - now, 2 * numbers.window);
  }

  // The time `limit` units are meant for.
  static std::int64_t span(const rule& numbers) { return numbers.window; }

  static figures explain(const rule& numbers, const outcome& seen, std::int64_t cost) {
    const state s{seen.view[0], seen.view[1], seen.view[2]};
    return explain_by(numbers, used(numbers, s, seen.now), cost, [&](std::int64_t units) -> std::int64_t {
      if (units <= numbers.limit - used(numbers, s, seen.now)) return 0;
      const std::int64_t room = numbers.limit - units - s.current;
      const std::int64_t due = room >= 0
                                   ? s.start + fades_to(numbers, s.previous, room)
                                   : s.start + numbers.window + fades_to(numbers, s.current, numbers.limit - units);
      return std::min(due - seen.now, 2 * numbers.window);
    });
  }

 private:
  static std::int64_t used(const rule& numbers, const state& s, std::int64_t now) {
    const std::int64_t elapsed = std::max(now, s.start) - s.start;
    const auto weighted = detail::int128{s.previous} * (numbers.window - elapsed) / numbers.window;
    return s.current + static_cast<std::int64_t>(weighted);
  }

  // The smallest time into a window at which the one before, holding `count`, weighs no more than `room` < count.
  static std::int64_t fades_to(const rule& numbers, std::int64_t count, std::int64_t room) {
    const auto left = (detail::int128{room} + 1) * numbers.window - 1;
    return numbers.window - static_cast<std::int64_t>(left / count);
  }
};

}  // namespace ratelimit::algorithm
