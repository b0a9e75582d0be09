// A few connections for many threads.
#pragma once

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/connection.hpp>
#include <ratelimit/redis/fork.hpp>
#include <ratelimit/redis/options.hpp>

namespace ratelimit::detail {

// Never more connections than `connections`; no lock is held while anything is sent, awaited or dialled.
//
// A forked child must not use its parent's connections, nor wait for a mutex that a thread it does not have had locked.
// So all of that lives in a block that belongs to one process: the child leaves the block it inherited alone, but for
// closing its copies of the descriptors (a plain close, which the parent's connection does not notice), and makes its
// own.
class pool {
 public:
  explicit pool(redis_options chosen) : options_{std::move(chosen)} {
    watch_forks();
    block_ = new block{options_};
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  // No call may be running.
  ~pool() {
    block* last = block_;
    if (last->process == forks_so_far()) {
      assert(last->free.size() == last->all.size() && "a ratelimit::redis is destroyed while it is being asked");
      delete last;
    } else {
      abandon(*last);
    }
  }

  // Sends `commands` in one go, and hands each of their replies to `read`, in order, which returns the error it holds:
  // a connection on which something out of step came is dropped. Returns why the replies not handed over will not come.
  template <class Read>
  std::error_code call(std::string_view commands, std::size_t replies, const deadline& until, Read read) {
    const lease link{current(), until};
    if (!link) return errc::timeout;
    const bool fresh = !link->is_usable();
    if (fresh) {
      if (const std::error_code failed = link->dial(options_, until)) return failed;
    }
    bool in_step = true;
    const auto take = [&](const redisReply& got) {
      const std::error_code error = read(got);
      in_step = in_step && error != errc::protocol && error != errc::too_many_clients;
    };
    answer heard = link->ask(commands, replies, until, take);
    // The server closed the idle connection at this very moment, before it had all of the only command.
    if (!fresh && !heard.sent && replies == 1 && heard.error && heard.error != errc::timeout) {
      if (const std::error_code failed = link->dial(options_, until)) return failed;
      heard = link->ask(commands, replies, until, take);
    }
    if (!in_step) link->close();
    return heard.error;
  }

 private:
  struct block {
    explicit block(const redis_options& chosen) : all(static_cast<std::size_t>(chosen.connections)) {
      for (connection& one : all) free.push_back(&one);
    }

    const unsigned process = forks_so_far();
    std::mutex mutex{};
    std::condition_variable given_back{};
    std::vector<connection> all;
    std::vector<connection*> free{};  // the last one is taken first: those at the front may go idle
    block* abandoned_before = nullptr;
  };

  // A connection for one user, for as long as the lease lives. Empty when there was none before the deadline.
  class lease {
   public:
    lease(block& from, const deadline& until) : from_{from} {
      std::unique_lock lock{from_.mutex};
      const auto any = [this] { return !from_.free.empty(); };
      if (!from_.given_back.wait_until(lock, until.at(), any)) return;
      taken_ = from_.free.back();
      from_.free.pop_back();
    }
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease() {
      if (taken_ == nullptr) return;
      {
        const std::lock_guard lock{from_.mutex};
        from_.free.insert(taken_->is_open() ? from_.free.end() : from_.free.begin(), taken_);
      }
      from_.given_back.notify_one();
    }

    explicit operator bool() const noexcept { return taken_ != nullptr; }
    connection* operator->() const noexcept { return taken_; }

   private:
    block& from_;
    connection* taken_ = nullptr;
  };

  // This process' block. Several threads of a child may be the first at once: one of them wins.
  block& current() {
    block* seen = block_.load(std::memory_order_acquire);
    if (seen->process == forks_so_far()) return *seen;
    auto* const own = new block{options_};
    if (!block_.compare_exchange_strong(seen, own, std::memory_order_acq_rel)) {
      delete own;
      return *seen;
    }
    abandon(*seen);
    return *own;
  }

  // Neither its mutex nor what its connections were in the middle of can be known, so it is never destroyed.
  static void abandon(block& parents) noexcept {
    for (connection& one : parents.all) one.close();
    parents.abandoned_before = abandoned_.load();
    while (!abandoned_.compare_exchange_weak(parents.abandoned_before, &parents)) {
    }
  }

  static inline std::atomic<block*> abandoned_{nullptr};  // keeps them reachable: they are no leak

  redis_options options_;
  std::atomic<block*> block_{nullptr};
};

}  // namespace ratelimit::detail
