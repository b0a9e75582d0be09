// Tells a forked child from its parent.
#pragma once

#include <pthread.h>

#include <atomic>

namespace ratelimit::detail {

inline std::atomic<unsigned> fork_count{0};

// The number of forks between the process that began and this one. Cheaper than asking the kernel for the process id on
// each call. Counted from the first watch_forks() on; a bare clone(2) is not seen.
inline unsigned forks_so_far() noexcept {
  return fork_count.load(std::memory_order_relaxed);
}

inline void watch_forks() {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace ratelimit::detail
