// The sliding log's arithmetic: lua/sliding_log.lua in C++, in the same reading order.
//
// One entry per admitted call, with its time, its cost and the units taken before it; the window is (now - window,
// now]. An entry's time is never before that of the one ahead of it: a key's time does not run backwards, so entries
// are in order whatever the clocks say, and the units in force are a difference of two entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

struct sliding_log {
  static constexpr std::string_view tag = "log";

  struct entry {
    std::int64_t time;
    std::int64_t cost;
    std::uint64_t start;  // units taken before it; wraps, since only differences are read
    std::uint64_t end() const { return start + static_cast<std::uint64_t>(cost); }
  };
  struct state {
    std::deque<entry> entries;
  };

  static outcome step(const rule& numbers, state& stored, operation op, std::int64_t now, std::int64_t cost) {
    auto& log = stored.entries;
    const std::int64_t time = log.empty() ? now : std::max(now, log.back().time);
    std::size_t oldest = first_after(log, time - numbers.window);
    std::int64_t used = oldest == log.size() ? 0 : static_cast<std::int64_t>(log.back().end() - log[oldest].start);
    const bool fits = cost <= numbers.limit - used;

    const bool takes = op == operation::take && fits;
    if (takes || op == operation::refund) {
      const std::uint64_t end = log.empty() ? 0 : log.back().end();
      log.erase(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(oldest));
      oldest = 0;
      if (takes) log.push_back({time, cost, end});
      used += takes ? cost : -give_back(log, cost);
    }

    outcome seen{.allowed = fits, .now = now, .view = {used}};
    if (used > 0) {
      seen.view[1] = log.back().time;
      seen.view[2] = time_of(log, oldest, std::max<std::int64_t>(used - numbers.limit + 1, 1));
    }
    if (!fits && cost <= numbers.limit && op != operation::refund)
      seen.view[3] = time_of(log, oldest, used - numbers.limit + cost);
    return seen;
  }

  static bool empty(const state& s) { return s.entries.empty(); }
  static bool ahead(const state& s, std::int64_t now) { return !s.entries.empty() && s.entries.back().time > now; }
  // One window after the last entry, and no more when that lies ahead of the clock.
  static std::int64_t lifetime(const rule& numbers, const state& s, std::int64_t now) {
    return wait(numbers, s.entries.back().time, now);
  }

  static figures explain(const rule& numbers, const outcome& seen, std::int64_t cost) {
    const auto [used, newest, reset, retry] = seen.view;
    figures f{.used = used};
    if (!seen.allowed && cost <= numbers.limit) f.retry = wait(numbers, retry, seen.now);
    if (used > 0) {
      f.reset = wait(numbers, reset, seen.now);
      f.full = wait(numbers, newest, seen.now);
    }
    return f;
  }

 private:
  static std::size_t first_after(const std::deque<entry>& log, std::int64_t edge) {
    const auto found =
        std::upper_bound(log.begin(), log.end(), edge, [](std::int64_t at, const entry& e) { return at < e.time; });
    return static_cast<std::size_t>(found - log.begin());
  }

  // When the units-th unit in force, counted from the oldest, was taken.
  static std::int64_t time_of(const std::deque<entry>& log, std::size_t oldest, std::int64_t units) {
    const std::uint64_t start = log[oldest].start;
    const auto reaches = [&](const entry& e) { return e.end() - start >= static_cast<std::uint64_t>(units); };
    return std::partition_point(log.begin() + static_cast<std::ptrdiff_t>(oldest), log.end(), std::not_fn(reaches))
        ->time;
  }

  // Takes `cost` units off the newest entries; how many there were to take.
  static std::int64_t give_back(std::deque<entry>& log, std::int64_t cost) {
    const std::int64_t asked = cost;
    while (cost > 0 && !log.empty()) {
      entry& newest = log.back();
      const std::int64_t given = std::min(cost, newest.cost);
      newest.cost -= given;
      cost -= given;
      if (newest.cost == 0) log.pop_back();
    }
    return asked - cost;
  }

  // From `now` until an entry made at `time` is out; never longer than the key lives.
  static std::int64_t wait(const rule& numbers, std::int64_t time, std::int64_t now) {
    return std::min(time + numbers.window - now, numbers.window);
  }
};

}  // namespace ratelimit::algorithm
