// A mutex that no fork finds locked by a thread which the child does not have.
#pragma once

#include <pthread.h>

#include <mutex>

namespace ratelimit::detail {

// The thread that forks waits until it has all mutexes of this kind, as pthread_atfork(3) has it, and both processes go
// on with them free and what they guard whole. Where a thread takes several, it takes them in the order in which they
// were made.
class fork_safe_mutex {
 public:
  fork_safe_mutex() {
    [[maybe_unused]] static const int registered = ::pthread_atfork(take_all, give_all, give_all);
    const std::lock_guard lock{list_mutex_};
    before_ = last_;
    (last_ != nullptr ? last_->after_ : first_) = this;
    last_ = this;
  }
  fork_safe_mutex(const fork_safe_mutex&) = delete;
  fork_safe_mutex& operator=(const fork_safe_mutex&) = delete;
  ~fork_safe_mutex() {
    const std::lock_guard lock{list_mutex_};
    (before_ != nullptr ? before_->after_ : first_) = after_;
    (after_ != nullptr ? after_->before_ : last_) = before_;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void take_all() {
    list_mutex_.lock();
    for (fork_safe_mutex* each = first_; each != nullptr; each = each->after_) each->lock();
  }
  static void give_all() {
    for (fork_safe_mutex* each = first_; each != nullptr; each = each->after_) each->unlock();
    list_mutex_.unlock();
  }

  static inline std::mutex list_mutex_{};
  static inline fork_safe_mutex* first_ = nullptr;
  static inline fork_safe_mutex* last_ = nullptr;

  std::mutex mutex_{};
  fork_safe_mutex* before_ = nullptr;
  fork_safe_mutex* after_ = nullptr;
};

}  // namespace ratelimit::detail
