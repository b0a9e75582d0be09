// A few connections to one server, for many threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <exception>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/redis/breaker.hpp>
#include <ratelimit/redis/fork.hpp>
#include <ratelimit/redis/link.hpp>
#include <ratelimit/redis/options.hpp>

namespace ratelimit::detail {

// Never more connections than `connections`, and none is dialled by two threads at once.
//
// A forked child must not use its parent's connections, nor wait for a mutex that a thread it does not have had locked.
// So all of that lives in a block that belongs to one process: the child leaves the block it inherited alone, but for
// closing its copies of the descriptors (a plain close, which the parent's connection does not notice), and makes its
// own.
class pool {
 public:
  explicit pool(redis_options chosen) : options_{std::move(chosen)}, address_{address_of(options_)} {
    watch_forks();
    block_ = new block{options_};
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  // No call may be running.
  ~pool() {
    block* last = block_;
    if (last->process == forks_so_far()) {
      assert(last->is_idle() && "a ratelimit::redis is destroyed while it is being asked");
      report_end(last->health);
      delete last;
    } else {
      abandon(*last);
    }
  }

  // Sends `commands` in one go, and hands each of their replies to `read`, in order, which returns the error it holds:
  // a connection on which something out of step came is dropped. Returns why the replies not handed over will not come.
  //
  // `read` may run on another thread that calls here, while this one waits, and with a lock held: it only reads.
  template <class Read>
  std::error_code call(std::string_view commands, std::size_t replies, const deadline& until, Read read) {
    if (replies == 0) return {};
    if (until.passed()) return errc::timeout;
    block& own = current();
    const breaker::entry in = own.health.enter(breaker_clock::now);
    if (in.refused) return in.refused;
    if (in.probe) report(breaker_state::half_open, {});

    reading<Read> to{read};
    exchange first{commands, replies, until, &reading<Read>::read_one, &to};
    own.ask(first, options_);
    std::error_code failed = first.error;
    if (own.may_repeat(first)) {
      exchange second{commands, replies, until, &reading<Read>::read_one, &to};
      own.ask(second, options_);
      failed = second.error;
    }
    note(own.health, in, failed ? failed : to.out_of_service);
    if (to.thrown) std::rethrow_exception(to.thrown);
    return failed;
  }

 private:
  using breaker_clock = std::chrono::steady_clock;

  // What `read` makes of the replies, and which of them says that the server cannot serve anybody now. Any other
  // refusal is the answer of a server that is well.
  template <class Read>
  struct reading {
    Read& read;
    std::error_code out_of_service{};
    std::exception_ptr thrown{};

    static std::error_code read_one(void* self, const redisReply& got) noexcept {
      auto& to = *static_cast<reading*>(self);
      std::error_code error;
      try {
        error = to.read(got);
      } catch (...) {
        to.thrown = std::current_exception();
      }
      if (error && (error == errc::protocol || error == errc::loading)) to.out_of_service = error;
      return error;
    }
  };

  struct block {
    explicit block(const redis_options& chosen)
        : health{{chosen.failures, chosen.first_pause, chosen.longest_pause}, std::random_device{}()},
          links(static_cast<std::size_t>(chosen.connections)) {}

    bool is_idle() const noexcept {
      return std::all_of(links.begin(), links.end(), [](const link& one) { return one.load == 0; });
    }

    void ask(exchange& one, const redis_options& to) {
      const std::size_t replies = one.replies;
      link& by = choose(replies);
      by.ask(one, to);
      by.load.fetch_sub(replies, std::memory_order_relaxed);
      if (found_no_room(one) && has_open())
        next_dial_ = (breaker_clock::now() + to.first_pause).time_since_epoch().count();
    }

    // Of what was sent nothing is ever sent again.
    bool may_repeat(const exchange& one) const noexcept {
      if (found_no_room(one)) return one.error != errc::timeout && has_open();
      return one.ended == exchange::end::unsent;
    }

    const unsigned process = forks_so_far();
    breaker health;
    std::vector<link> links;
    block* abandoned_before = nullptr;

   private:
    // True when a connection more could not be had: those that there are may still serve.
    static bool found_no_room(const exchange& one) noexcept {
      return one.ended == exchange::end::undialled || one.error == errc::too_many_clients;
    }

    bool has_open() const noexcept {
      return std::any_of(links.begin(), links.end(), [](const link& one) { return one.is_open(); });
    }

    // All share the first, and the next comes in when each before it has `enough` due: a server runs one command at a
    // time, and the more of them come in one piece, the less each costs both sides.
    link& choose(std::size_t replies) {
      constexpr std::size_t enough = 16;
      link* least = nullptr;
      std::pair<bool, std::size_t> least_rank;
      for (link& one : links) {
        if (least != nullptr && least_rank < std::pair{false, enough}) break;
        const std::size_t load = one.load.load(std::memory_order_relaxed);
        const bool open = one.is_open();
        if (load == 0 && (open || may_dial()) && claim(one, replies)) return one;
        // One that is late, or being dialled, comes after all the others.
        const std::pair rank{!open || one.is_late(), load};
        if (least != nullptr && rank >= least_rank) continue;
        least = &one;
        least_rank = rank;
      }
      least->load.fetch_add(replies, std::memory_order_relaxed);
      return *least;
    }

    static bool claim(link& one, std::size_t replies) noexcept {
      std::size_t none = 0;
      return one.load.compare_exchange_strong(none, replies, std::memory_order_relaxed);
    }

    // Where the server takes no further connection, those that are open serve, and one is tried each pause.
    bool may_dial() const noexcept {
      const auto at = next_dial_.load(std::memory_order_relaxed);
      return at == 0 || !has_open() || breaker_clock::now().time_since_epoch().count() >= at;
    }

    std::atomic<breaker_clock::rep> next_dial_{0};
  };

  void note(breaker& health, const breaker::entry& in, std::error_code failed) const {
    if (!failed) {
      if (health.succeeded()) report(breaker_state::closed, {});
    } else if (health.failed(in, static_cast<errc>(failed.value()), breaker_clock::now())) {
      report(breaker_state::open, failed);
    }
  }

  void report(breaker_state now, std::error_code why) const {
    tell(options_.observer.breaker, breaker_change{address_, now, why});
  }
  // Nobody who watches takes a breaker that is no more for an open one.
  void report_end(const breaker& of) const {
    if (of.state() != breaker_state::closed) report(breaker_state::closed, {});
  }

  // This process' block. Several threads of a child may be the first at once: one of them wins.
  block& current() {
    block* seen = block_.load(std::memory_order_acquire);
    if (seen->process == forks_so_far()) return *seen;
    auto* const own = new block{options_};
    if (!block_.compare_exchange_strong(seen, own, std::memory_order_acq_rel)) {
      delete own;
      return *seen;
    }
    report_end(seen->health);
    abandon(*seen);
    return *own;
  }

  // Neither its mutexes nor what its connections were in the middle of can be known, so it is never destroyed.
  static void abandon(block& parents) noexcept {
    for (link& one : parents.links) one.close_copy();
    parents.abandoned_before = abandoned_.load();
    while (!abandoned_.compare_exchange_weak(parents.abandoned_before, &parents)) {
    }
  }

  static inline std::atomic<block*> abandoned_{nullptr};  // keeps them reachable: they are no leak

  const redis_options options_;
  const std::string address_;
  std::atomic<block*> block_{nullptr};
};

}  // namespace ratelimit::detail
