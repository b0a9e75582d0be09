// The sliding log's arithmetic: lua/sliding_log.lua in C++, in the same reading order.
//
// One entry per admitted call, with its time, its cost and the units taken before it; the window is (now - window,
// now]. An entry's time is never before that of the one ahead of it: a key's time does not run backwards, so entries
// are in order whatever the clocks say, and the units in force are a difference of two entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::algorithm {

struct sliding_log {
  static constexpr algorithm_id id = algorithm_id::sliding_log;
  static constexpr std::string_view tag = "log";

  struct entry {
    std::int64_t time;
    std::int64_t cost;
    std::uint64_t start;  // units taken before it; wraps, since only differences are read
    std::uint64_t end() const { return start + static_cast<std::uint64_t>(cost); }
  };
  // The entries, oldest first. Those of windows gone by are dropped in bulk, so that a call costs the same however
  // many there are.
  class state {
   public:
    auto begin() const { return all_.begin() + static_cast<std::ptrdiff_t>(gone_); }
    auto end() const { return all_.end(); }
    bool empty() const { return gone_ == all_.size(); }
    entry& newest() { return all_.back(); }
    const entry& newest() const { return all_.back(); }
    void add(const entry& e) { all_.push_back(e); }
    void drop_newest() { all_.pop_back(); }
    void drop_before(std::vector<entry>::const_iterator first) {
      gone_ = static_cast<std::size_t>(first - all_.begin());
      if (2 * gone_ < all_.size()) return;
      all_.erase(all_.begin(), first);
      gone_ = 0;
    }

   private:
    std::vector<entry> all_;
    std::size_t gone_ = 0;
  };

  // `open`: no block refuses the call.
  static stepped step(const request& what, operation op, state& log, std::int64_t now, bool open) {
    const rule& numbers = what.numbers;
    const std::int64_t time = log.empty() ? now : std::max(now, log.newest().time);
    const std::int64_t edge = time - numbers.window;
    auto oldest = first_after(log, edge);
    std::int64_t used = oldest == log.end() ? 0 : static_cast<std::int64_t>(log.newest().end() - oldest->start);
    const bool fits = what.cost <= numbers.limit - used;

    const bool takes = op == operation::take && fits && open;
    // What is out of the window gives nothing back: the units in force are other calls'.
    const bool gives = op == operation::refund && used > 0 && !(what.taken && *what.taken <= edge);
    if (takes || gives) {
      const std::uint64_t taken = log.empty() ? 0 : log.newest().end();
      log.drop_before(oldest);
      if (takes) log.add({time, what.cost, taken});
      used += takes ? what.cost : -give_back(log, what.cost);
      oldest = log.begin();
    }

    outcome seen{.allowed = fits && open, .now = now, .view = {used}};
    if (used > 0) {
      seen.view[2] = log.newest().time;
      seen.view[1] = time_of(log, oldest, std::max<std::int64_t>(used - numbers.limit + 1, 1));
    }
    if (!fits && what.cost <= numbers.limit && op != operation::refund)
      seen.view[3] = time_of(log, oldest, used - numbers.limit + what.cost);
    return {seen, takes || gives || op == operation::block};
  }

  static bool empty(const state& s) { return s.empty(); }
  static bool ahead(const state& s, std::int64_t now) { return !s.empty() && s.newest().time > now; }
  // One window after the last entry, and no more when that lies ahead of the clock.
  static std::int64_t lifetime(const rule& numbers, const state& s, std::int64_t now) {
    return wait(numbers, s.newest().time, now);
  }

  // The time `limit` units are meant for.
  static std::int64_t span(const rule& numbers) { return numbers.window; }

  static figures explain(const rule& numbers, const outcome& seen, std::int64_t cost) {
    const auto [used, reset, newest, retry] = seen.view;
    figures f{.used = used};
    if (cost <= numbers.limit && cost > numbers.limit - used) f.retry = wait(numbers, retry, seen.now);
    if (used > 0) {
      f.reset = wait(numbers, reset, seen.now);
      f.full = wait(numbers, newest, seen.now);
    }
    return f;
  }

 private:
  using position = std::vector<entry>::const_iterator;

  static position first_after(const state& log, std::int64_t edge) {
    return std::upper_bound(log.begin(), log.end(), edge, [](std::int64_t at, const entry& e) { return at < e.time; });
  }

  // When the units-th unit in force, counted from the oldest, was taken.
  static std::int64_t time_of(const state& log, position oldest, std::int64_t units) {
    return std::partition_point(
               oldest, log.end(),
               [&](const entry& e) { return e.end() - oldest->start < static_cast<std::uint64_t>(units); })
        ->time;
  }

  // Takes `cost` units off the newest entries; returns how many there were to take.
  static std::int64_t give_back(state& log, std::int64_t cost) {
    const std::int64_t asked = cost;
    while (cost > 0 && !log.empty()) {
      entry& newest = log.newest();
      const std::int64_t given = std::min(cost, newest.cost);
      newest.cost -= given;
      cost -= given;
      if (newest.cost == 0) log.drop_newest();
    }
    return asked - cost;
  }

  // From `now` until an entry made at `time` is out; never longer than the key lives.
  static std::int64_t wait(const rule& numbers, std::int64_t time, std::int64_t now) {
    return std::min(time + numbers.window - now, numbers.window);
  }
};

}  // namespace ratelimit::algorithm
