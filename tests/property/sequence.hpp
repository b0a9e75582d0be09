// Random sequences of calls, and what the reference answers to each. A sequence is a value: every call carries its own
// time and options, so that a failing one can be printed, shortened and run again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "reference.hpp"

namespace property {

using reference::count;

enum class act { check, peek, refund, reset, negative, nameless };

struct call {
  act what = act::check;
  count now = 0;
  reference::numbers numbers{};
  count cost = 1;
};

// What the reference answers; nothing to a call that is malformed.
template <class Model>
reference::answer answer_to(Model& model, const call& c) {
  switch (c.what) {
    case act::check: return reference::check(model, c.numbers, c.now, c.cost);
    case act::peek: return reference::peek(model, c.numbers, c.now, c.cost);
    case act::refund: return reference::refund(model, c.numbers, c.now, c.cost);
    case act::reset: model.reset(); return {.wrote = true};
    case act::negative:
    case act::nameless: break;
  }
  return {};
}

// The same numbers from every standard library, unlike its distributions.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_{seed} {}

  // 0 to bound - 1
  count below(count bound) { return static_cast<count>(engine_() % static_cast<std::uint64_t>(bound)); }
  count between(count low, count high) { return low + below(high - low + 1); }
  bool one_in(count chances) { return below(chances) == 0; }
  // Every order of magnitude as likely as the others.
  count spread(count low, count high) {
    count top = low;
    for (count steps = below(64); steps > 0 && top < high; --steps)
      top = std::min(high, top < high / 2 ? top * 2 : high);
    return between(low, top);
  }

 private:
  std::mt19937_64 engine_;
};

inline constexpr count second = 1'000'000;
inline constexpr count ten_years = 315'569'520 * second;
inline constexpr count most = (count{1} << 53) - 1;

// What keeps the state apart from real time, on which a key's lifetime runs.
struct profile {
  count shortest_window;  // microseconds
  count longest_window;
  // A key that is written with less real time to live than this may be gone at the next call.
  count safe_lifetime;
  // True: such a key is forgotten at once. False: only when the clock steps back or the options change, since else what
  // is gone no longer counts anyway.
  bool forget_at_once;
  // Only limits and windows whose product leaves the whole numbers that a double holds.
  bool huge = false;
};

// Every window the library takes. A key in `memory` dies in real time too, so with short windows the clock runs back
// over a key only after a reset.
inline constexpr profile any_window{
    .shortest_window = 1000, .longest_window = ten_years, .safe_lifetime = 10 * second, .forget_at_once = false};

// In Redis every key's lifetime runs on the server's own clock, whatever clock a limiter has.
inline constexpr profile long_windows{.shortest_window = 600 * second,
                                      .longest_window = ten_years,
                                      .safe_lifetime = 300 * second,
                                      .forget_at_once = true};

inline constexpr profile huge_numbers{.shortest_window = 24 * 3600 * second,
                                      .longest_window = ten_years,
                                      .safe_lifetime = 300 * second,
                                      .forget_at_once = true,
                                      .huge = true};

// Writes a sequence of up to 24 calls and follows it with the reference, so that it can step onto the edges that the
// answers name.
template <class Model>
class writer {
 public:
  writer(std::uint64_t seed, const profile& chosen) : random_{seed}, profile_{chosen} {}

  std::vector<call> write() {
    numbers_.window = window();
    numbers_.limit = limit();
    numbers_.refill = refill();
    now_ = start();
    unit_costs_ = random_.one_in(2) ? random_.below(25) : 0;
    for (count left = random_.between(1, 24); left > 0; --left) step();
    return std::move(calls_);
  }

 private:
  void step() {
    if (random_.one_in(15)) change_options();
    if (denied_ && random_.one_in(2)) {
      // The retry contract: denied one microsecond before, allowed then.
      const call again = *denied_;
      const count wait = *answer_.retry;
      move_to(again.now + wait - 1);
      if (now_ == again.now + wait - 1) {
        add(again.what, again.cost);
        move_to(now_ + 1);
        add(again.what, again.cost);
        return;
      }
    }
    move_to(next_time());
    const count kind = random_.below(40);
    if (kind < 26) {
      add(act::check, cost());
    } else if (kind < 31) {
      add(act::peek, cost());
    } else if (kind < 37) {
      add(act::refund, cost());
    } else if (kind < 38) {
      add(act::reset, 1);
    } else {
      add(kind == 38 ? act::negative : act::nameless, 1);
    }
  }

  void add(act what, count cost) {
    calls_.push_back({what, now_, numbers_, cost});
    if (what == act::negative || what == act::nameless) return;
    const reference::answer answer = answer_to(model_, calls_.back());
    denied_.reset();
    if (what == act::reset) {
      dies_soon_ = false;
      written_ = std::numeric_limits<count>::min();
      return;
    }
    answer_ = answer;
    if (answer.retry) denied_ = calls_.back();
    if (!answer.wrote) return;
    const reference::wide lives = model_.lifetime(numbers_, now_);
    dies_soon_ = lives > 0 && lives < profile_.safe_lifetime;
    written_ = std::max(written_, now_);
    if (profile_.forget_at_once || now_ < written_) forget_if_dying();
  }

  void forget_if_dying() {
    if (dies_soon_) add(act::reset, 1);
  }

  void change_options() {
    forget_if_dying();
    denied_.reset();
    if (!random_.one_in(3))
      numbers_.limit = random_.one_in(2) ? std::min(most, numbers_.limit + random_.below(3)) : limit();
    if (random_.one_in(3)) numbers_.window = window();
    if (random_.one_in(3)) numbers_.refill = refill();
  }

  void move_to(count time) {
    time = std::clamp<count>(time, -(count{1} << 50), count{1} << 52);
    if (time < now_) forget_if_dying();
    now_ = time;
  }

  count next_time() {
    switch (random_.below(20)) {
      case 0: return now_ + answer_.reset;
      case 1: return now_ + std::max<count>(answer_.reset - 1, 0);
      case 2: return now_ + answer_.full;
      case 3: return now_ + std::max<count>(answer_.full - 1, 0);
      case 4: return edge();
      case 5: return edge() - 1;
      case 6: return now_ - random_.between(1, 1000);
      case 7: return now_ - random_.between(1, numbers_.window);
      case 8: return now_ - random_.spread(1, 3 * numbers_.window);
      case 9:
      case 10: return now_ + random_.between(1, 3 * numbers_.window);
      case 11:
      case 12:
      case 13: return now_ + random_.between(0, numbers_.window / std::min<count>(numbers_.limit, 50) + 1);
      case 14: return now_ + random_.spread(1, numbers_.window);
      default: return now_;
    }
  }

  // The start of the clock's next window.
  count edge() const { return static_cast<count>((reference::floor_div(now_, numbers_.window) + 1) * numbers_.window); }

  count start() {
    const count around_2025 = 1'750'000'000 * second + random_.below(ten_years);
    switch (random_.below(8)) {
      case 0: return random_.between(-numbers_.window, numbers_.window);  // the epoch
      case 1: return around_2025 / numbers_.window * numbers_.window;
      default: return around_2025;
    }
  }

  count limit() {
    if (profile_.huge || random_.one_in(12))
      return random_.one_in(2) ? most - random_.below(50) : random_.spread(profile_.huge ? count{1} << 30 : 1, most);
    return random_.between(1, 50);
  }

  count window() {
    const count usual = std::max(5 * 24 * 3600 * second, 2 * profile_.shortest_window);
    const count longest = profile_.huge || random_.one_in(12) ? profile_.longest_window : usual;
    const count chosen = random_.spread(profile_.shortest_window, longest);
    const count round = random_.one_in(2) ? 1000 : 1;
    return std::max(profile_.shortest_window, chosen / round * round);
  }

  count refill() { return random_.one_in(profile_.huge ? 2 : 12) ? random_.spread(1, most) : random_.between(1, 60); }

  count cost() {
    if (unit_costs_-- > 0) return 1;
    if (numbers_.limit <= 1000) return random_.one_in(3) ? random_.below(numbers_.limit + 3) : random_.below(4);
    switch (random_.below(8)) {
      case 0: return numbers_.limit + random_.between(-1, 1);
      case 1: return random_.one_in(2) ? most : std::numeric_limits<count>::max();
      case 2:
      case 3: return std::max<count>(answer_.remaining + random_.between(-1, 1), 0);
      case 4: return random_.below(4);
      default: return random_.spread(1, numbers_.limit);
    }
  }

  dice random_;
  profile profile_;
  reference::numbers numbers_{};
  count now_ = 0;
  count unit_costs_ = 0;  // so many calls to come cost 1
  Model model_;
  reference::answer answer_{};
  std::optional<call> denied_{};  // the last call, when it was told to come back
  bool dies_soon_ = false;
  count written_ = std::numeric_limits<count>::min();  // the latest time the key was written at
  std::vector<call> calls_;
};

inline const char* name_of(act what) {
  switch (what) {
    case act::check: return "check";
    case act::peek: return "peek";
    case act::refund: return "refund";
    case act::reset: return "reset";
    case act::negative: return "check of cost -1";
    case act::nameless: return "check of no identity";
  }
  return "?";
}

inline std::string text_of(const call& c) {
  std::ostringstream text;
  text << "{act::" << name_of(c.what) << ", " << c.now << ", {" << c.numbers.limit << ", " << c.numbers.window << ", "
       << c.numbers.refill << "}, " << c.cost << "}";
  return text.str();
}

// How many sequences each test runs for each algorithm; RATELIMIT_TEST_SEQUENCES asks for fewer where each takes long.
inline count sequences() {
  const char* const asked = std::getenv("RATELIMIT_TEST_SEQUENCES");
  return asked == nullptr ? 10'000 : std::max<count>(std::strtoll(asked, nullptr, 10), 1);
}

// For the tests that make many calls for each of a sequence's.
inline count some_sequences() {
  return (sequences() + 9) / 10;
}

// RATELIMIT_TEST_SEED asks for others than the usual ones.
inline std::uint64_t seed_of(count sequence) {
  const char* const asked = std::getenv("RATELIMIT_TEST_SEED");
  const std::uint64_t seed = asked == nullptr ? 1 : std::strtoull(asked, nullptr, 10);
  return seed * 1'000'000'007 + static_cast<std::uint64_t>(sequence);
}

}  // namespace property
