// The four algorithms once more, as plainly as their definitions read: nothing packed, nothing trimmed early, every
// wait found by trying instants. Slow, and shares no line with the library it is compared to.
//
// What the definitions say of time that runs backwards: a log's entry is never put before the newest one; the window a
// counter is in, and the instant a bucket's level belongs to, stay where they are until the clock has passed them; no
// wait is told that is longer than the key would live. A refund that has nothing to give back changes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace reference {

using count = std::int64_t;
__extension__ using wide = __int128;  // limit * window takes up to 102 bits

// Times in microseconds. refill is a token bucket's: tokens that come each window.
struct numbers {
  count limit = 1;
  count window = 1;
  count refill = 1;
};

struct answer {
  bool allowed = false;
  count used = 0;
  count remaining = 0;
  std::optional<count> retry{};
  count reset = 0;
  count full = 0;
  bool wrote = false;
};

constexpr wide floor_div(wide a, wide b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// The least wait, 1 to `longest`, after which `holds` is true; `longest` when it is not true before. What is tried
// must stay true once it is: with no other traffic quota only comes back.
template <class Predicate>
count first_wait(count longest, const Predicate& holds) {
  count low = 1;
  count high = std::max<count>(longest, 1);
  while (low < high) {
    const count middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// A plain list of what was let in, and when. Its time is the clock's or the newest entry's, whichever is later.
class sliding_log {
 public:
  wide used(const numbers& n, count now) const {
    const count edge = time(now) - n.window;
    wide sum = 0;
    for (const entry& e : entries_)
      if (e.time > edge) sum += e.units;
    return sum;
  }

  void take(const numbers& n, count now, count cost) {
    forget(n, now);
    entries_.push_back({time(now), cost});
  }

  bool refund(const numbers& n, count now, count cost) {
    if (used(n, now) == 0) return false;
    forget(n, now);
    while (cost > 0 && !entries_.empty()) {
      const count part = std::min(cost, entries_.back().units);
      cost -= part;
      entries_.back().units -= part;
      if (entries_.back().units == 0) entries_.pop_back();
    }
    return true;
  }

  void reset() { entries_.clear(); }

  count longest(const numbers& n, count) const { return n.window; }
  wide lifetime(const numbers& n, count now) const {
    return entries_.empty() ? 0 : std::min(entries_.back().time + n.window - now, n.window);
  }

 private:
  struct entry {
    count time;
    count units;
  };

  count time(count now) const {
    for (const entry& e : entries_) now = std::max(now, e.time);
    return now;
  }

  // A call that is counted drops what has left the window: a longer one, chosen later, does not bring it back.
  void forget(const numbers& n, count now) {
    const count edge = time(now) - n.window;
    std::erase_if(entries_, [&](const entry& e) { return e.time <= edge; });
  }

  std::vector<entry> entries_;
};

// A window of the clock's, and what was let in. Under a new length the units lie in the window that holds the start of
// their own.
class fixed_window {
 public:
  wide used(const numbers& n, count now) const { return moved(n, now).units_; }

  void take(const numbers& n, count now, count cost) {
    *this = moved(n, now);
    units_ += cost;
  }

  bool refund(const numbers& n, count now, count cost) {
    if (moved(n, now).units_ == 0) return false;
    *this = moved(n, now);
    units_ -= std::min(units_, cost);
    return true;
  }

  void reset() { units_ = 0; }

  count longest(const numbers& n, count) const { return n.window; }
  wide lifetime(const numbers& n, count now) const {
    return units_ == 0 ? 0 : std::min(start_ + n.window - now, n.window);
  }

 private:
  fixed_window moved(const numbers& n, count now) const {
    const wide here = floor_div(now, n.window);
    const wide stored = floor_div(start_, n.window);
    fixed_window there;
    there.start_ = static_cast<count>((units_ > 0 ? std::max(here, stored) : here) * n.window);
    if (stored >= here) there.units_ = units_;
    return there;
  }

  count start_ = 0;
  count units_ = 0;
};

// Two windows of the clock's: the one it is in and the one before. Under a new length the units lie in the windows that
// hold the start of the current one, and the one before that.
class sliding_counter {
 public:
  wide used(const numbers& n, count now) const {
    const sliding_counter there = moved(n, now);
    const count elapsed = std::max<count>(now - there.start_, 0);
    return there.current_ + wide{there.previous_} * (n.window - elapsed) / n.window;
  }

  void take(const numbers& n, count now, count cost) {
    *this = moved(n, now);
    current_ += cost;
  }

  bool refund(const numbers& n, count now, count cost) {
    if (moved(n, now).current_ == 0) return false;
    *this = moved(n, now);
    current_ -= std::min(current_, cost);
    return true;
  }

  void reset() { current_ = previous_ = 0; }

  count longest(const numbers& n, count) const { return 2 * n.window; }
  wide lifetime(const numbers& n, count now) const {
    return current_ + previous_ == 0 ? 0 : std::min(start_ + 2 * n.window - now, 2 * n.window);
  }

 private:
  sliding_counter moved(const numbers& n, count now) const {
    const wide here = floor_div(now, n.window);
    const wide stored = floor_div(start_, n.window);
    const bool some = current_ + previous_ > 0;
    sliding_counter there;
    there.start_ = static_cast<count>((some ? std::max(here, stored) : here) * n.window);
    if (stored >= here) {
      there.current_ = current_;
      there.previous_ = previous_;
    } else if (stored == here - 1) {
      there.previous_ = current_;
    }
    return there;
  }

  count start_ = 0;
  count current_ = 0;
  count previous_ = 0;
};

// The level as an exact fraction, at an instant: refill / window in lowest terms gives the parts a token is counted in.
// Under a new rate the whole tokens stay, and the parts of the next one are counted as parts of the new size, one short
// of a token at the most.
class token_bucket {
 public:
  wide used(const numbers& n, count now) const { return n.limit - level(n, now) / parts(n); }

  void take(const numbers& n, count now, count cost) { settle(n, now, level(n, now) - wide{cost} * parts(n)); }

  bool refund(const numbers& n, count now, count cost) {
    if (level(n, now) == full(n)) return false;
    settle(n, now, std::min(level(n, now) + wide{cost} * parts(n), full(n)));
    return true;
  }

  void reset() { seen_ = false; }

  // The time to full, from the level it has now; 2^53 - 1 where it is more.
  count longest(const numbers& n, count now) const {
    return static_cast<count>(std::min<wide>(time_to_full(n, now), (count{1} << 53) - 1));
  }
  wide lifetime(const numbers& n, count now) const { return seen_ ? time_to_full(n, now) : 0; }

 private:
  // The last one is kept: it is asked for a thousand times in a row, and takes longer than all the rest.
  static count divisor(const numbers& n) {
    static thread_local count refill = 1, window = 1, common = 1;
    if (refill != n.refill || window != n.window) {
      refill = n.refill;
      window = n.window;
      common = std::gcd(refill, window);
    }
    return common;
  }
  static count parts(const numbers& n) { return n.window / divisor(n); }
  static count gain(const numbers& n) { return n.refill / divisor(n); }
  static wide full(const numbers& n) { return wide{n.limit} * parts(n); }

  wide time_to_full(const numbers& n, count now) const { return (full(n) - level(n, now) + gain(n) - 1) / gain(n); }

  wide level(const numbers& n, count now) const {
    if (!seen_) return full(n);
    const wide held = level_ / parts_ * parts(n) + std::min<wide>(level_ % parts_, parts(n) - 1);
    const wide passed = std::max<wide>(wide{now} - time_, 0);
    return std::min(held + passed * gain(n), full(n));
  }

  void settle(const numbers& n, count now, wide left) {
    const bool was_full = level(n, now) == full(n);  // as if nobody had ever used it
    time_ = was_full ? now : std::max(time_, now);
    seen_ = left < full(n);
    level_ = left;
    parts_ = parts(n);
  }

  bool seen_ = false;
  wide level_ = 0;
  count parts_ = 1;
  count time_ = 0;
};

// What a decision tells, whatever the algorithm: all from units in force at an instant.
template <class Model>
answer describe(const Model& model, const numbers& n, count now, count cost) {
  const auto used_after = [&](count wait) { return model.used(n, now + wait); };
  const auto left_after = [&](count wait) { return std::max<wide>(n.limit - used_after(wait), 0); };
  const count longest = model.longest(n, now);  // no wait is told that is longer than the key may live

  answer a;
  a.used = static_cast<count>(used_after(0));
  a.remaining = static_cast<count>(left_after(0));
  a.allowed = wide{a.used} + cost <= n.limit;
  if (!a.allowed && cost <= n.limit)
    a.retry = first_wait(longest, [&](count wait) { return used_after(wait) + cost <= n.limit; });
  if (a.remaining < n.limit) a.reset = first_wait(longest, [&](count wait) { return left_after(wait) > a.remaining; });
  if (a.used > 0) a.full = first_wait(longest, [&](count wait) { return used_after(wait) == 0; });
  return a;
}

// A cost of 0 asks what a call of cost 1 would be told.
template <class Model>
answer peek(const Model& model, const numbers& n, count now, count cost) {
  return describe(model, n, now, std::max<count>(cost, 1));
}

template <class Model>
answer check(Model& model, const numbers& n, count now, count cost) {
  const answer before = peek(model, n, now, cost);
  if (!before.allowed || cost == 0) return before;
  model.take(n, now, cost);
  answer after = describe(model, n, now, 1);
  after.wrote = true;
  after.allowed = true;
  after.retry.reset();
  return after;
}

template <class Model>
answer refund(Model& model, const numbers& n, count now, count cost) {
  if (cost == 0) return peek(model, n, now, 0);
  const bool wrote = model.refund(n, now, cost);
  answer after = describe(model, n, now, 1);
  after.wrote = wrote;
  after.allowed = true;
  after.retry.reset();
  return after;
}

}  // namespace reference
