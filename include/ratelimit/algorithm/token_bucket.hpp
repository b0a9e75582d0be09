// The token bucket's arithmetic: lua/token_bucket.lua in C++, in the same reading order.
//
// The level is a whole number of tokens and a fraction counted in 1/window of a token, so that no part of a token is
// lost or made, whatever the rhythm of calls. A refusal writes nothing: the fraction goes on growing from `last`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

struct token_bucket {
  static constexpr algorithm_id id = algorithm_id::token_bucket;
  static constexpr std::string_view tag = "bucket";

  // `last` is 0 only in a bucket nobody has used: there is no token missing in it either.
  struct state {
    std::int64_t tokens = 0;
    std::int64_t fraction = 0;  // of the next token, in 1/window
    std::int64_t last = 0;      // the time the level was true at
    bool seen = false;
  };

  static state look(const rule& numbers, const state& stored, std::int64_t now) {
    const state full{numbers.limit, 0, now, true};
    if (!stored.seen) return full;
    state s{std::max<std::int64_t>(stored.tokens, 0), std::min(stored.fraction, numbers.window - 1),
            std::max(now, stored.last), true};
    if (now > stored.last) {
      const auto gained = detail::int128{numbers.refill} * (now - stored.last) + s.fraction;
      if (gained / numbers.window >= numbers.limit) return full;
      s.tokens += static_cast<std::int64_t>(gained / numbers.window);
      s.fraction = static_cast<std::int64_t>(gained % numbers.window);
    }
    return s.tokens >= numbers.limit ? full : s;
  }

  // `open`: no block refuses the call.
  static stepped step(const request& what, operation op, state& stored, std::int64_t now, bool open) {
    const rule& numbers = what.numbers;
    state s = look(numbers, stored, now);
    const bool fits = what.cost <= s.tokens;
    bool wrote = op == operation::block;
    if (op == operation::take && fits && open) {
      s.tokens -= what.cost;
      wrote = true;
    } else if (op == operation::refund && s.tokens < numbers.limit) {
      s.tokens += std::min(what.cost, numbers.limit - s.tokens);
      if (s.tokens == numbers.limit) s.fraction = 0;
      wrote = true;
    }
    if (wrote) stored = s.tokens == numbers.limit ? state{} : s;
    return {{.allowed = fits && open, .now = now, .view = {s.tokens, s.fraction, s.last}}, wrote};
  }

  static bool empty(const state& s) { return !s.seen; }
  static bool ahead(const state& s, std::int64_t now) { return s.last > now; }
  // The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
  static std::int64_t lifetime(const rule& numbers, const state& s, std::int64_t) {
    return fills_to(numbers, s, numbers.limit);
  }

  // The time `limit` units are meant for: that of filling an empty bucket.
  static std::int64_t span(const rule& numbers) {
    return detail::ceil_div(detail::int128{numbers.limit} * numbers.window, numbers.refill);
  }

  static figures explain(const rule& numbers, const outcome& seen, std::int64_t cost) {
    const state s{seen.view[0], seen.view[1], seen.view[2], true};
    return explain_by(numbers, numbers.limit - s.tokens, cost, [&](std::int64_t units) -> std::int64_t {
      if (units <= s.tokens) return 0;
      return std::min(s.last - seen.now + fills_to(numbers, s, units), lifetime(numbers, s, seen.now));
    });
  }

 private:
  static std::int64_t fills_to(const rule& numbers, const state& s, std::int64_t units) {
    const auto missing = detail::int128{units - s.tokens} * numbers.window - s.fraction;
    return detail::ceil_div(missing, numbers.refill);
  }
};

}  // namespace ratelimit::algorithm
