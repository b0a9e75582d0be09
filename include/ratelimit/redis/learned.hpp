// What one server tells of others, for many threads: learned when first needed, and again when it turns out wrong.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include <ratelimit/detail/fork_safe_mutex.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/fork.hpp>

namespace ratelimit::detail {

// One thread at a time learns; the others use what was known, or wait for it within their deadlines where nothing is.
// Between two attempts lies a pause, so that an outage makes no storm of questions.
template <class T>
class learned {
 public:
  using pointer = std::shared_ptr<const T>;
  struct news {
    pointer known{};           // empty: there are none
    std::error_code failed{};  // why not
  };

  static constexpr std::chrono::milliseconds pause{100};

  learned() { watch_forks(); }

  // What is known, learned first where nothing is, or where it is in doubt. `learn(known, until)` gives the news.
  template <class Learn>
  news current(const deadline& until, Learn learn) {
    pointer known;
    {
      const std::lock_guard lock{mutex_};
      known = known_;
      if (known && (!doubted_ || is_being_learned() || !is_due())) return {.known = known};
    }
    if (!known) return anew(known, until, learn);
    // Half of the time is kept for what the caller came for.
    anew(known, deadline{until.left() / 2}, learn);
    const std::lock_guard lock{mutex_};
    return {.known = known_};
  }

  // What has taken the place of `wrong`. Empty when there is nothing new: learning failed, or was tried just before.
  template <class Learn>
  news anew(const pointer& wrong, const deadline& until, Learn learn) {
    std::shared_ptr<flight> joined;
    {
      const std::lock_guard lock{mutex_};
      if (known_ != wrong) return {.known = known_};
      if (is_being_learned()) {
        joined = flight_;
      } else if (!is_due()) {
        return {.failed = failed_};
      } else {
        flight_ = std::make_shared<flight>();
        doubted_ = false;
      }
    }
    if (!joined) {
      landing end{*this};
      end.made = learn(wrong, until);
    } else if (!joined->wait(until)) {
      return {.failed = errc::timeout};
    }
    const std::lock_guard lock{mutex_};
    return known_ != wrong ? news{.known = known_} : news{.failed = failed_};
  }

  // The next call learns anew.
  void doubt() {
    const std::lock_guard lock{mutex_};
    doubted_ = true;
  }

  // A correction of `seen` that came by itself; where it `hints` at more, the next call learns all anew. What is known
  // then: newer knowledge than `seen` is neither touched nor doubted.
  pointer correct(const pointer& seen, pointer better, bool hints) {
    const std::lock_guard lock{mutex_};
    if (known_ == seen) {
      known_.swap(better);
      doubted_ = doubted_ || hints;
    }
    return known_;
  }

 private:
  // An attempt, and those who wait for its end. A forked child never joins its parent's: no thread would end it.
  class flight {
   public:
    const unsigned process = forks_so_far();

    bool wait(const deadline& until) {
      std::unique_lock lock{mutex_};
      return landed_.wait_until(lock, until.at(), [this] { return is_over_; });
    }
    void end() {
      const std::lock_guard lock{mutex_};
      is_over_ = true;
      landed_.notify_all();
    }

   private:
    std::mutex mutex_{};
    std::condition_variable landed_{};
    bool is_over_ = false;
  };

  // Ends the attempt, whichever way it is left.
  struct landing {
    learned& of;
    news made{.failed = errc::timeout};

    explicit landing(learned& owner) : of{owner} {}
    landing(const landing&) = delete;
    landing& operator=(const landing&) = delete;
    ~landing() {
      std::shared_ptr<flight> over;
      pointer old = made.known;
      {
        const std::lock_guard lock{of.mutex_};
        if (old) {
          of.known_.swap(old);
        } else {
          of.doubted_ = true;
        }
        of.failed_ = made.failed;
        of.next_ = deadline::clock::now() + pause;
        over.swap(of.flight_);
      }
      over->end();
    }
  };

  bool is_being_learned() const noexcept { return flight_ && flight_->process == forks_so_far(); }
  bool is_due() const noexcept { return deadline::clock::now() >= next_; }

  // Held for the few instructions in which knowledge is exchanged, never while anything is sent or awaited; a child
  // finds none half exchanged.
  fork_safe_mutex mutex_{};
  pointer known_{};
  std::shared_ptr<flight> flight_{};
  bool doubted_ = false;
  std::error_code failed_{};
  deadline::clock::time_point next_{};
};

}  // namespace ratelimit::detail
