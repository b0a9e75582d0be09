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
#include <stdexcept>
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
    if (chosen.entries == 0) throw std::invalid_argument{"ratelimit: entries: 0 is not at least 1"};
    const std::size_t count = std::clamp<std::size_t>(chosen.entries / 1024, 1, 16);
    shards_ = std::vector<shard>(count);
    for (std::size_t i = 0; i < count; ++i) shards_[i].room = chosen.entries / count + (i < chosen.entries % count);
  }

  outcome run(const request& what, const deadline&) {
    const std::int64_t now = what.now ? *what.now : system_clock{}.now().time_since_epoch().count();
    shard& where = shards_[std::hash<std::string_view>{}(what.key) % shards_.size()];
    const std::lock_guard lock{where.mutex};
    where.sweep(now);
    if (what.op == operation::reset) {
      where.forget(where.find(what.key));
      return {.allowed = true, .now = now};
    }
    switch (what.algorithm) {
      case algorithm_id::sliding_log: return where.run<algorithm::sliding_log>(what, now);
      case algorithm_id::sliding_counter: return where.run<algorithm::sliding_counter>(what, now);
      case algorithm_id::token_bucket: return where.run<algorithm::token_bucket>(what, now);
      case algorithm_id::fixed_window: return where.run<algorithm::fixed_window>(what, now);
    }
    return {.error = errc::script};
  }

  // Forgets every key.
  void clear() {
    for (shard& s : shards_) {
      const std::lock_guard lock{s.mutex};
      s.index.clear();
      s.entries.clear();
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
  using any_state = std::variant<algorithm::sliding_log::state, algorithm::sliding_counter::state,
                                 algorithm::token_bucket::state, algorithm::fixed_window::state>;

  struct entry {
    std::string key;
    any_state state;
    steady::time_point dies{};  // the end of the key's lifetime, as Redis would keep it
    std::int64_t due = 0;       // the same instant by the limiter's clock
  };
  using entries_list = std::list<entry>;

  // A part of the keys under a lock of its own; the entry used last stands first.
  struct shard {
    mutable std::mutex mutex;
    std::size_t room = 0;
    entries_list entries;
    std::unordered_map<std::string_view, entries_list::iterator> index;

    entries_list::iterator find(std::string_view key) {
      const auto found = index.find(key);
      return found == index.end() ? entries.end() : found->second;
    }

    void forget(entries_list::iterator which) {
      if (which == entries.end()) return;
      index.erase(which->key);
      entries.erase(which);
    }

    // Each call looks at two of the entries that nobody asked for, so that dead ones go without being asked for again.
    // Both clocks must agree: a manual clock may stand still or step back.
    void sweep(std::int64_t now) {
      for (int i = 0; i < 2 && !entries.empty(); ++i) {
        const auto last = std::prev(entries.end());
        if (now < last->due || steady::now() < last->dies) return;
        forget(last);
      }
    }

    entries_list::iterator add(std::string_view key, any_state state) {
      if (entries.size() >= room) forget(std::prev(entries.end()));
      entries_list made;
      made.push_back({std::string{key}, std::move(state)});
      index.emplace(made.front().key, made.begin());
      entries.splice(entries.begin(), made);
      return entries.begin();
    }

    template <class Algorithm>
    outcome run(const request& what, std::int64_t now) {
      using state = typename Algorithm::state;
      auto found = find(what.key);
      // What lies ahead of the clock would else be kept for longer than its lifetime.
      if (found != entries.end() && Algorithm::ahead(std::get<state>(found->state), now) &&
          steady::now() >= found->dies) {
        forget(found);
        found = entries.end();
      }

      state unseen;
      state& held = found == entries.end() ? unseen : std::get<state>(found->state);
      const outcome seen = Algorithm::step(what.numbers, held, what.op, now, what.cost);
      if ((what.op == operation::take && seen.allowed) || what.op == operation::refund) {
        if (Algorithm::empty(held)) {
          forget(found);
          return seen;
        }
        const std::int64_t lifetime = Algorithm::lifetime(what.numbers, held, now);
        if (found == entries.end()) found = add(what.key, std::move(unseen));
        found->dies = steady::now() + std::chrono::microseconds{std::min(lifetime, longest)};
        found->due = now + lifetime;
      }
      if (found != entries.end()) entries.splice(entries.begin(), entries, found);
      return seen;
    }
  };

  // 100 years in microseconds: what can be added to the monotonic clock without overflow.
  static constexpr std::int64_t longest = std::int64_t{100} * 366 * 24 * 3600 * 1'000'000;

  std::vector<shard> shards_;
};

}  // namespace ratelimit
