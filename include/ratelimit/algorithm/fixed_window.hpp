// The fixed window's arithmetic: lua/fixed_window.lua in C++, in the same reading order.
//
// Windows are [k * window, (k + 1) * window), counted from the Unix epoch. The stored start, not the clock, says which
// window a count belongs to: one that lies ahead of the clock stays in force until it is over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

struct fixed_window {
  static constexpr algorithm_id id = algorithm_id::fixed_window;
  static constexpr std::string_view tag = "window";

  struct state {
    std::int64_t start = 0;
    std::int64_t count = 0;
  };

  static state look(const rule& numbers, const state& stored, std::int64_t now) {
    const std::int64_t current = detail::floor_to(now, numbers.window);
    const std::int64_t start = detail::floor_to(stored.start, numbers.window);
    if (stored.count > 0 && start >= current) return {start, stored.count};
    return {current, 0};
  }

  // `open`: no block refuses the call.
  static stepped step(const request& what, operation op, state& stored, std::int64_t now, bool open) {
    const rule& numbers = what.numbers;
    state s = look(numbers, stored, now);
    const bool fits = what.cost <= numbers.limit - s.count;
    bool wrote = op == operation::block;
    if (op == operation::take && fits && open) {
      s.count += what.cost;
      wrote = true;
    } else if (op == operation::refund && s.count > 0 && !over(what, s, now)) {
      s.count -= std::min(what.cost, s.count);
      wrote = true;
    }
    if (wrote) stored = s;
    return {{.allowed = fits && open, .now = now, .view = {s.start, s.count}}, wrote};
  }

  // The window that took what is given back is over.
  static bool over(const request& what, const state& s, std::int64_t now) {
    return what.taken && *what.taken < s.start && s.start <= now;
  }

  static bool empty(const state& s) { return s.count == 0; }
  static bool ahead(const state& s, std::int64_t now) { return s.start > now; }
  static std::int64_t lifetime(const rule& numbers, const state& s, std::int64_t now) {
    return std::min(s.start + numbers.window - now, numbers.window);
  }

  // The time `limit` units are meant for.
  static std::int64_t span(const rule& numbers) { return numbers.window; }

  static figures explain(const rule& numbers, const outcome& seen, std::int64_t cost) {
    const state s{seen.view[0], seen.view[1]};
    return explain_by(numbers, s.count, cost, [&](std::int64_t units) -> std::int64_t {
      return units <= numbers.limit - s.count ? 0 : lifetime(numbers, s, seen.now);
    });
  }
};

}  // namespace ratelimit::algorithm
