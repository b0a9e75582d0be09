// Refusals remembered in the process, so that a client that hammers costs the store nothing until its wait is over.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <ratelimit/decision.hpp>
#include <ratelimit/detail/fork_safe_mutex.hpp>

namespace ratelimit {

// A refusal and the instant its wait ends, in microseconds of whatever clock the limiter keeps the cache by.
//
// Staleness: a reset, a refund or a raised limit in another process is seen when the wait ends, and no later. So are
// units that come back before that: `used` and `remaining` are those of the refusal. A larger cost is told the wait of
// the smaller one, after which the store is asked.
// Thread-safe. A lookup allocates nothing.
class deny_cache {
 public:
  // Entries at the most. When full, the refusal whose wait ends first goes.
  explicit deny_cache(std::size_t entries) : room_{entries} {}

  // The refusal that also answers this call: of the same key and limit and of no larger cost, with its waits counted
  // down to `now`.
  std::optional<decision> find(std::string_view key, std::int64_t cost, std::int64_t limit, std::int64_t now) const {
    const std::lock_guard lock{mutex_};
    const auto found = refusals_.find(key);
    if (found == refusals_.end()) return std::nullopt;
    const refusal& known = found->second;
    if (now >= known.until || now < known.since || cost < known.cost || limit != known.answer.limit)
      return std::nullopt;
    const std::chrono::microseconds gone{now - known.since};
    decision d = known.answer;
    d.from = source::deny_cache;
    d.at += gone;
    *d.retry_after -= gone;
    // What came back meanwhile is not known here; more will have when the wait is over. 0 would say: nothing is used.
    d.reset_after = d.reset_after > gone ? d.reset_after - gone : *d.retry_after;
    d.full_after = std::max(d.full_after - gone, std::chrono::microseconds{0});
    return d;
  }

  // How often forget() was called. To be read before the store is asked, and handed to add().
  std::uint64_t times_forgotten() const noexcept { return forgotten_.load(std::memory_order_acquire); }

  // Remembers a refusal with a known wait that was asked for at `since`; but not when something was forgotten after
  // that: the refusal may be from before the reset.
  void add(std::string_view key, std::int64_t cost, const decision& answer, std::int64_t since,
           std::uint64_t forgotten) {
    const std::int64_t until = since + answer.retry_after->count();
    const std::lock_guard lock{mutex_};
    if (forgotten != forgotten_.load(std::memory_order_relaxed)) return;
    auto found = refusals_.find(key);
    if (found != refusals_.end()) {
      ends_.erase(found->second.end);
    } else {
      if (refusals_.size() >= room_) drop(ends_.begin());
      found = refusals_.try_emplace(std::string{key}).first;
    }
    try {
      found->second = {answer, cost, since, until, ends_.emplace(until, &found->first)};
    } catch (...) {
      refusals_.erase(found);
      throw;
    }
  }

  // To be called when the store has changed the key.
  void forget(std::string_view key) {
    const std::lock_guard lock{mutex_};
    forgotten_.fetch_add(1, std::memory_order_release);
    if (const auto found = refusals_.find(key); found != refusals_.end()) drop(found->second.end);
  }

  std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return refusals_.size();
  }

 private:
  using by_end = std::multimap<std::int64_t, const std::string*>;
  struct refusal {
    decision answer;
    std::int64_t cost = 0;
    std::int64_t since = 0;
    std::int64_t until = 0;
    by_end::iterator end{};
  };
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void drop(by_end::iterator which) {
    refusals_.erase(refusals_.find(*which->second));
    ends_.erase(which);
  }

  mutable detail::fork_safe_mutex mutex_;
  std::size_t room_;
  std::atomic<std::uint64_t> forgotten_{0};
  std::unordered_map<std::string, refusal, hash, std::equal_to<>> refusals_;
  by_end ends_;
};

}  // namespace ratelimit
