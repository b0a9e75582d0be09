// Counting in this process while the store cannot be asked: what fail::local does.
#pragma once

#include <atomic>
#include <cstdint>
#include <numeric>

#include <ratelimit/detail/integer.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/memory.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// A key's count here ends when the store has counted a call of that key, so that the next outage begins with none. No
// other answer ends it: the store may still refuse to write, or have this key on a server that is away, while it
// answers about others. What was counted here is never written to the store.
class local_fallback {
 public:
  // `share`: what this process may admit, as a fraction of the limit, in thousandths rounded down.
  explicit local_fallback(double share) : thousandths_{static_cast<std::int64_t>(share * 1000 + 1e-9)} {}

  // The numbers that hold here. The limit may come out as 0: then nothing passes.
  rule share_of(rule numbers) const noexcept {
    numbers.limit = static_cast<std::int64_t>(detail::int128{numbers.limit} * thousandths_ / 1000);
    if (numbers.refill > 0) {
      const std::int64_t common = std::gcd(thousandths_, std::int64_t{1000});
      numbers.refill *= thousandths_ / common;
      numbers.window *= 1000 / common;
    }
    return numbers;
  }

  outcome run(const request& what, const deadline& until) {
    used_.store(true, std::memory_order_relaxed);
    return counts_.run(what, until);
  }

  // The store has changed the key of this request.
  void end(const request& changed) {
    if (!used_.load(std::memory_order_relaxed)) return;
    request forget = changed;
    forget.op = operation::reset;
    forget.once = {};
    counts_.run(forget, deadline{deadline::clock::time_point{}});
  }

 private:
  std::int64_t thousandths_;
  std::atomic<bool> used_{false};
  memory counts_;
};

}  // namespace ratelimit
