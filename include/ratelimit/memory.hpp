// The in-process store: the same limiters with no server. The scripts are tested against it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <ratelimit/algorithm/fixed_window.hpp>
#include <ratelimit/algorithm/sliding_counter.hpp>
#include <ratelimit/algorithm/sliding_log.hpp>
#include <ratelimit/algorithm/token_bucket.hpp>
#include <ratelimit/clock.hpp>
#include <ratelimit/detail/fork_safe_mutex.hpp>
#include <ratelimit/detail/refuse.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

struct memory_options {
  // Keys held at the most, over all limiters of the store; default 100,000, at least 1. A key takes about 200 bytes,
  // and 24 more for each call a sliding_log remembers: that number is bounded by the limits, not by this option. When
  // full, the key not asked for the longest time is forgotten: a flood of new identities cannot push out one that keeps
  // calling, and one that was pushed out begins with a full quota.
  std::size_t entries = 100'000;
};

// Thread-safe; share one per process. Counts calls of this process only. No call waits for anything but another
// thread's few microseconds, so the deadline of a check is not looked at.
class memory {
 public:
  static constexpr source origin = source::memory;

  explicit memory(memory_options chosen = {}) {
    if (chosen.entries == 0) detail::refuse("entries", "0", "is not at least 1");
    const std::size_t count = std::clamp<std::size_t>(chosen.entries / 1024, 1, 16);
    shards_ = std::vector<shard>(count);
    for (std::size_t i = 0; i < count; ++i) shards_[i].room = chosen.entries / count + (i < chosen.entries % count);
  }

  outcome run(const request& what, const deadline&) {
    shard& where = shard_of(what.key);
    const std::lock_guard lock{where.mutex};
    const std::int64_t now = time_of(what);
    if (what.once.empty()) return where.run(what, what.op, now);
    const bool again = what.op == operation::take && where.remembers(what, now);
    outcome seen = where.run(what, again ? operation::peek : what.op, now);
    if (again) {
      seen.repeated = true;
      seen.allowed = !is_ahead(seen.blocked, now);
    } else if (what.op == operation::take && seen.allowed) {
      where.remember(what, now);
    } else if (what.op == operation::refund) {
      where.forget(where.find(what.once));
    }
    return seen;
  }

  bool can_join(std::span<const request>) const noexcept { return true; }

  void run_many(std::span<const request> what, std::size_t together, std::span<outcome> out, const deadline& until) {
    for (std::size_t i = 0; i < what.size(); i += together) {
      if (together == 1) {
        out[i] = run(what[i], until);
      } else {
        run_group(what.subspan(i, together), out.subspan(i, together));
      }
    }
  }

  // Forgets every key.
  void clear() {
    for (shard& s : shards_) {
      const std::lock_guard lock{s.mutex};
      s.index.clear();
      s.entries.clear();
      s.hand = s.entries.end();
    }
  }

  // Keys held now.
  std::size_t size() const {
    std::size_t keys = 0;
    for (const shard& s : shards_) {
      const std::lock_guard lock{s.mutex};
      keys += s.entries.size();
    }
    return keys;
  }

 private:
  using steady = std::chrono::steady_clock;
  // 100 years in microseconds: what can be added to the monotonic clock without overflow.
  static constexpr std::int64_t longest = std::int64_t{100} * 366 * 24 * 3600 * 1'000'000;

  struct call_id {
    std::int64_t first;  // when a call of this id was counted
  };
  using any_state = std::variant<algorithm::sliding_log::state, algorithm::sliding_counter::state,
                                 algorithm::token_bucket::state, algorithm::fixed_window::state, call_id>;

  struct entry {
    std::string key;
    any_state state;
    steady::time_point dies{};  // the end of the key's lifetime, as Redis would keep it
    std::int64_t due = 0;       // the same instant by the limiter's clock
    std::int64_t blocked = 0;   // when a block ends; 0: there is none

    void live(std::int64_t now, std::int64_t lifetime) {
      dies = steady::now() + std::chrono::microseconds{std::min(lifetime, longest)};
      due = now + lifetime;
    }
  };
  using entries_list = std::list<entry>;

  static std::int64_t time_of(const request& what) {
    return what.now ? *what.now : system_clock{}.now().time_since_epoch().count();
  }

  // Whether a block that ends at `blocked` is in force; 0 is no block, also before 1970.
  static bool is_ahead(std::int64_t blocked, std::int64_t now) { return blocked != 0 && blocked > now; }

  // A part of the keys under a lock of its own; the entry used last stands first.
  struct shard {
    mutable detail::fork_safe_mutex mutex;
    std::size_t room = 0;
    entries_list entries;
    entries_list::iterator hand = entries.end();  // what stands before it is looked at next
    std::unordered_map<std::string_view, entries_list::iterator> index;

    entries_list::iterator find(std::string_view key) {
      const auto found = index.find(key);
      return found == index.end() ? entries.end() : found->second;
    }

    void forget(entries_list::iterator which) {
      if (which == entries.end()) return;
      if (hand == which) ++hand;
      index.erase(which->key);
      entries.erase(which);
    }

    // Each call looks at the next entry in turn, and at those after it as long as they are dead, so that dead ones go
    // without being asked for again: after as many calls as there are entries at the latest. Both clocks must agree: a
    // manual clock may stand still or step back.
    void sweep(std::int64_t now) {
      for (int gone = 0; gone < 16 && !entries.empty(); ++gone) {
        if (hand == entries.begin()) hand = entries.end();
        const auto next = std::prev(hand);
        if (now < next->due || steady::now() < next->dies) {
          hand = next;
          return;
        }
        forget(next);
      }
    }

    void put_first(entries_list::iterator which) {
      if (hand == which) ++hand;
      entries.splice(entries.begin(), entries, which);
    }

    entries_list::iterator add(std::string_view key, any_state state) {
      if (entries.size() >= room) forget(std::prev(entries.end()));
      entries_list made;
      made.push_back({std::string{key}, std::move(state)});
      index.emplace(made.front().key, made.begin());
      entries.splice(entries.begin(), made);
      return entries.begin();
    }

    outcome run(const request& what, operation op, std::int64_t now) {
      sweep(now);
      if (op == operation::reset) {
        forget(find(what.key));
        return {.allowed = true, .now = now};
      }
      switch (what.algorithm) {
        case algorithm_id::sliding_log:
        case algorithm_id::compact_log: return run<algorithm::sliding_log>(what, op, now);
        case algorithm_id::sliding_counter: return run<algorithm::sliding_counter>(what, op, now);
        case algorithm_id::token_bucket: return run<algorithm::token_bucket>(what, op, now);
        case algorithm_id::fixed_window: return run<algorithm::fixed_window>(what, op, now);
      }
      return {.error = errc::script};
    }

    template <class Algorithm>
    outcome run(const request& what, operation op, std::int64_t now) {
      using state = typename Algorithm::state;
      auto found = find(what.key);
      // What lies ahead of the clock would else be kept for longer than its lifetime.
      if (found != entries.end() && steady::now() >= found->dies &&
          (Algorithm::ahead(std::get<state>(found->state), now) || is_ahead(found->blocked, now))) {
        forget(found);
        found = entries.end();
      }

      state unseen;
      state& held = found == entries.end() ? unseen : std::get<state>(found->state);
      std::int64_t blocked = found == entries.end() ? 0 : found->blocked;
      const bool open = !is_ahead(blocked, now);
      auto [seen, wrote] = Algorithm::step(what, op, held, now, open);
      if (op == operation::take && wrote) blocked = 0;  // it is over
      if (op == operation::block) {
        blocked = std::max(now + what.cost, open ? now : blocked);
        if (blocked == 0) blocked = 1;
      }
      seen.blocked = blocked;

      if (wrote) {
        if (Algorithm::empty(held) && !is_ahead(blocked, now)) {
          forget(found);
          return seen;
        }
        std::int64_t lifetime = Algorithm::empty(held) ? 0 : Algorithm::lifetime(what.numbers, held, now);
        if (is_ahead(blocked, now)) lifetime = std::max(lifetime, blocked - now);
        if (found == entries.end()) found = add(what.key, std::move(unseen));
        found->blocked = blocked;
        found->live(now, lifetime);
      }
      if (found != entries.end()) put_first(found);
      return seen;
    }

    // Whether a call of this id was counted within its span.
    bool remembers(const request& what, std::int64_t now) {
      const auto found = find(what.once);
      if (found == entries.end()) return false;
      const std::int64_t first = std::get<call_id>(found->state).first;
      return now < first + what.once_for && (now >= first || steady::now() < found->dies);
    }

    // Where there is room for one key alone, that is what counts.
    void remember(const request& what, std::int64_t now) {
      if (room < 2) return;
      forget(find(what.once));
      add(what.once, call_id{now})->live(now, what.once_for);
    }
  };

  shard& shard_of(std::string_view key) { return shards_[std::hash<std::string_view>{}(key) % shards_.size()]; }

  // Looks at all, then takes all or none; the shards are locked in the order they were made in, whatever that of the
  // keys. The id of the call is remembered beside the first key.
  void run_group(std::span<const request> what, std::span<outcome> out) {
    std::vector<shard*> shards;
    for (const request& r : what) shards.push_back(&shard_of(r.key));
    std::vector<shard*> order = shards;
    std::sort(order.begin(), order.end());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::vector<std::unique_lock<detail::fork_safe_mutex>> locks;
    locks.reserve(order.size());
    for (shard* s : order) locks.emplace_back(s->mutex);

    const std::int64_t now = time_of(what.front());
    const bool has_id = !what.front().once.empty();
    const bool again = has_id && shards.front()->remembers(what.front(), now);
    bool go = true;
    for (std::size_t i = 0; i < what.size(); ++i) {
      const bool take = what[i].op == operation::take;
      out[i] = shards[i]->run(what[i], take ? operation::peek : what[i].op, now);
      if (!take) continue;
      out[i].repeated = again;
      if (again) out[i].allowed = !is_ahead(out[i].blocked, now);
      if (!out[i].allowed && what[i].binding) go = false;
    }
    if (!go || again) return;
    bool counted = false;
    for (std::size_t i = 0; i < what.size(); ++i) {
      if (what[i].op != operation::take || !out[i].allowed) continue;
      out[i] = shards[i]->run(what[i], operation::take, now);
      counted = true;
    }
    if (has_id && counted) shards.front()->remember(what.front(), now);
  }

  std::vector<shard> shards_;
};

}  // namespace ratelimit
