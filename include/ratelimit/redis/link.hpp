// One connection that many threads use at once, without a thread of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/connection.hpp>
#include <ratelimit/redis/giving_way.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/sleeper.hpp>

namespace ratelimit::detail {

// One caller's commands on their way. It lies on that caller's stack; what it holds belongs to the link's mutex until
// it is over.
struct exchange {
  // How it ended.
  enum class end : std::uint8_t {
    answered,   // every reply was read
    undialled,  // there was no connection, and none could be made
    unsent,     // the connection broke before a byte went out, or was no client's: certainly not run
    broken,     // the connection broke after that: nobody knows
    left,       // the caller's deadline passed
  };

  std::string_view commands;
  std::size_t replies;  // that are to come, at least one
  const deadline& until;
  // Takes a reply and returns the error that it holds. It may run on another caller's thread, with the link's mutex
  // held.
  std::error_code (*read)(void* reader, const redisReply& got) noexcept;
  void* reader;

  std::error_code error{};  // why the replies that were not read will not come
  end ended = end::answered;
  bool over = false;
  bool queued = true;          // nothing of it was sent
  exchange* before = nullptr;  // in the queue
  exchange* after = nullptr;
  sleeper bell{};
};

// The calls that wait to be sent, oldest first. It owns nothing.
class exchange_queue {
 public:
  exchange* front() const noexcept { return first_; }
  std::size_t size() const noexcept { return size_; }

  void push(exchange& one) noexcept {
    one.before = last_;
    (last_ != nullptr ? last_->after : first_) = &one;
    last_ = &one;
    ++size_;
  }
  void remove(exchange& one) noexcept {
    (one.before != nullptr ? one.before->after : first_) = one.after;
    (one.after != nullptr ? one.after->before : last_) = one.before;
    one.queued = false;
    --size_;
  }

 private:
  exchange* first_ = nullptr;
  exchange* last_ = nullptr;
  std::size_t size_ = 0;
};

// Callers queue their commands. One of them drives: it sends what is queued in one go, reads the replies in order and
// hands each to its caller, until its own are there; then it sends what has queued up meanwhile, and wakes the caller
// whose replies come next to drive on. So a lone caller sends and reads by itself, and many share each system call.
//
// While the driver waits for replies, a caller sends what is queued once that is as much as is under way: a server that
// keeps up soon has the next command, and one that does not gets ever more of them in one piece. Of many callers each
// lets the others run before it sleeps.
//
// A caller whose deadline passes leaves. What it had queued is not sent; what was sent is answered some day, and that
// answer is read and dropped. When nobody is left who waits for an answer that is due, the connection is closed, so
// that no later caller waits behind it. When it breaks, that is the end of those calls of which something was sent.
class link {
 public:
  bool is_open() const noexcept { return open_.load(std::memory_order_relaxed); }
  // True when an answer is due that its caller no longer waits for.
  bool is_late() const noexcept { return late_.load(std::memory_order_relaxed); }
  // A forked child's copy, whatever its parent was doing with it.
  void close_copy() noexcept { connection_.close(); }

  // Back by the deadline with own.error, own.ended, and every reply that came handed to own.read.
  void ask(exchange& own, const redis_options& to) {
    std::unique_lock lock{mutex_};
    own.bell.use(belfry_.next_bit());
    queue_.push(own);
    if (driven_) {
      // What fails shows to the driver, which reads.
      if (may_send(to) && !take_queue()) static_cast<void>(send(at_once()));
      const bool is_crowd = sent_.size() + queue_.size() >= crowd;
      lock.unlock();
      if (is_crowd) courtesy_.give_way();
      if (own.bell.wait(belfry_, own.until) == news::done) return;
      lock.lock();
      if (own.bell.heard() == news::done) return;
      if (own.bell.heard() == news::none) return leave(own);
    }
    driven_ = true;
    driver self{.own = own};
    driver_ = &self;
    drive(lock, to);
    hand_over(lock);
    lock.unlock();
    self.finished.flush(belfry_);
  }

  std::atomic<std::size_t> load{0};  // the replies that its callers wait for: the pool's to count

 private:
  static constexpr std::size_t kept_memory = std::size_t{64} * 1024;
  static constexpr std::size_t crowd = 12;  // callers

  // Past: what can be sent without waiting is.
  static deadline at_once() noexcept { return deadline{deadline::clock::time_point{}}; }

  struct driver {
    exchange& own;
    wake_list finished{};
  };

  // A call whose commands were taken to be sent.
  struct sent_call {
    exchange* caller;  // null: it has left
    std::size_t replies;
    std::uint64_t begin;  // among all the bytes ever taken
    std::error_code out_of_step{};
  };

  // True for a caller beside the driver. While something is due there is a connection, and the driver reads. An
  // encrypted stream is one thread's at a time.
  bool may_send(const redis_options& to) const noexcept {
    return !sent_.empty() && queue_.size() >= sent_.size() && !to.tls && !sending_.load(std::memory_order_acquire) &&
           unsent_.empty();
  }

  // Until the driver's own call is over.
  void drive(std::unique_lock<std::mutex>& lock, const redis_options& to) {
    exchange& own = driver_->own;
    for (bool late = false; !own.over;) {
      // After the deadline there is one last look at what has come. What is queued is not sent behind it: where nobody
      // waits for what is due any more, it is for another connection.
      const bool looked = std::exchange(late, own.until.passed());
      if (looked || (late && own.queued)) return leave(own);
      if (!is_ready(lock, to)) return;
      std::error_code broken;
      if (!late) broken = take_queue();
      sending_.store(true, std::memory_order_relaxed);
      lock.unlock();
      if (!broken) broken = transfer(own.until);
      lock.lock();
      sending_.store(false, std::memory_order_relaxed);
      const std::error_code out_of_step = hand_out();
      if (broken || out_of_step) break_off(out_of_step ? out_of_step : broken);
    }
  }

  // The next driver is the caller whose reply comes next.
  void hand_over(std::unique_lock<std::mutex>& lock) {
    driver& self = *driver_;
    if (self.own.ended == exchange::end::answered && queue_.front() != nullptr && connection_.is_open()) {
      // What has queued up goes out before its caller is awake.
      std::error_code broken = take_queue();
      sending_.store(true, std::memory_order_relaxed);
      lock.unlock();
      if (!broken) broken = send_and_wake();
      lock.lock();
      sending_.store(false, std::memory_order_relaxed);
      if (broken && broken != errc::timeout) break_off(broken);
    }
    const auto waiting =
        std::find_if(sent_.begin(), sent_.end(), [](const sent_call& s) { return s.caller != nullptr; });
    exchange* next = waiting != sent_.end() ? waiting->caller : nullptr;
    if (next == nullptr) {
      if (!sent_.empty()) break_off(errc::timeout);
      next = queue_.front();
    }
    if (next != nullptr) {
      self.finished.add(next->bell.tell(news::drive));
    } else {
      driven_ = false;
    }
    driver_ = nullptr;
  }

  // True when there is a connection to send on. Where none can be made, those who wait for it hear why; when it is just
  // the driver's time that is over, the next one tries.
  bool is_ready(std::unique_lock<std::mutex>& lock, const redis_options& to) {
    if (!sent_.empty() || connection_.is_usable()) return true;
    exchange& own = driver_->own;
    open_.store(false, std::memory_order_relaxed);
    lock.unlock();
    std::error_code failed = errc::refused;
    try {
      failed = connection_.dial(to, own.until);
    } catch (const std::bad_alloc&) {
      connection_.close();
    }
    lock.lock();
    open_.store(!failed, std::memory_order_relaxed);
    answered_ = false;
    if (!failed) return true;
    const auto give_up = [&](exchange& one) {
      queue_.remove(one);
      finish(one, failed, exchange::end::undialled);
    };
    if (failed == errc::timeout && own.until.passed()) {
      give_up(own);
    } else {
      while (exchange* const one = queue_.front()) give_up(*one);
    }
    return false;
  }

  // All that is queued is now to be sent.
  std::error_code take_queue() {
    while (exchange* const one = queue_.front()) {
      try {
        unsent_.reserve(unsent_.size() + one->commands.size());
        sent_.push_back({one, one->replies, taken_});
      } catch (const std::bad_alloc&) {
        return errc::closed;
      }
      unsent_.append(one->commands);
      taken_ += one->commands.size();
      queue_.remove(*one);
    }
    return {};
  }

  // Sends, and waits until something has come. That the time is over is no fault of the connection's.
  std::error_code transfer(const deadline& until) {
    std::error_code cut = send_and_wake();
    if (cut == errc::timeout) {
      cut = send(until);
      sending_.store(false, std::memory_order_release);
    }
    if (cut == errc::timeout) return {};
    if (!connection_.is_open()) return cut;
    // Also after a failed send: a server that turns a client away says why before it closes.
    const std::error_code failed = receive(until);
    if (cut) return cut;
    return failed == errc::timeout ? std::error_code{} : failed;
  }

  // In this order: the server has something to do before those who are woken want the processors. Nobody who has an
  // answer waits for a server that takes no more.
  std::error_code send_and_wake() {
    const std::error_code cut = send(at_once());
    sending_.store(cut == errc::timeout, std::memory_order_release);
    driver_->finished.flush(belfry_);
    return cut;
  }

  std::error_code send(const deadline& until) {
    if (unsent_.empty()) return {};
    std::string_view rest = unsent_;
    std::error_code failed;
    try {
      failed = connection_.send(rest, until);
    } catch (const std::bad_alloc&) {
      connection_.close();
      failed = errc::closed;
    }
    unsent_.erase(0, unsent_.size() - rest.size());
    // A large pipeline's memory is not kept.
    if (unsent_.empty() && unsent_.capacity() > kept_memory) unsent_.shrink_to_fit();
    return failed;
  }

  std::error_code receive(const deadline& until) {
    std::error_code failed = connection_.receive(until);
    while (!failed) {
      reply one;
      failed = connection_.next(one);
      if (!one) break;
      try {
        come_.push_back(std::move(one));
      } catch (const std::bad_alloc&) {
        failed = errc::closed;
      }
    }
    return failed;
  }

  // Hands the replies that have come to their callers. Returns why the connection cannot be used any more.
  std::error_code hand_out() {
    std::error_code broken;
    if (!answered_ && !come_.empty() && is_error(*come_.front()) &&
        errc_of(text_of(*come_.front())) == errc::too_many_clients)
      return turn_away(errc::too_many_clients);
    answered_ = answered_ || !come_.empty();
    auto to = sent_.begin();
    for (auto got = come_.begin(); got != come_.end() && !broken; ++got) {
      if (to == sent_.end()) {
        broken = errc::protocol;  // nobody has asked for it
      } else {
        read(*to, **got);
        --to->replies;
        broken = to->out_of_step;
        if (to->replies > 0) continue;  // broken: those who break off end it
        if (to->caller != nullptr) finish(*to->caller, {}, exchange::end::answered);
        ++to;
      }
    }
    come_.clear();
    sent_.erase(sent_.begin(), to);
    // Nothing is due: a word too many, or an answer to what was not yet asked.
    if (!broken && sent_.empty() && (connection_.has_leftover() || !unsent_.empty())) broken = errc::protocol;
    if (is_late()) note_late();
    return broken;
  }

  // The server's first words were that it takes no more clients: it has read nothing of what they sent.
  std::error_code turn_away(std::error_code why) {
    for (const sent_call& one : sent_)
      if (one.caller != nullptr) finish(*one.caller, why, exchange::end::unsent);
    sent_.clear();
    come_.clear();
    return why;
  }

  // Of a reply that no such command gets the call it was for hears; what else comes is not trusted.
  static void read(sent_call& of, const redisReply& got) noexcept {
    if (of.caller == nullptr) return;
    const std::error_code error = of.caller->read(of.caller->reader, got);
    if (error && error == errc::protocol) of.out_of_step = error;
  }

  void break_off(std::error_code why) {
    connection_.close();
    open_.store(false, std::memory_order_relaxed);
    const std::uint64_t gone_out = taken_ - unsent_.size();
    for (const sent_call& one : sent_)
      if (one.caller != nullptr)
        finish(*one.caller, why, one.begin < gone_out ? exchange::end::broken : exchange::end::unsent);
    sent_.clear();
    unsent_.clear();
    note_late();
  }

  // Nobody but its caller may touch it afterwards.
  void finish(exchange& one, std::error_code why, exchange::end how) {
    one.error = why;
    one.ended = how;
    one.over = true;
    if (&one != &driver_->own) driver_->finished.add(one.bell.tell(news::done));
  }

  void leave(exchange& own) {
    if (own.queued) {
      queue_.remove(own);
    } else {
      for (sent_call& one : sent_)
        if (one.caller == &own) one.caller = nullptr;
      note_late();
    }
    own.error = errc::timeout;
    own.ended = exchange::end::left;
    own.over = true;
  }

  void note_late() noexcept {
    late_.store(std::any_of(sent_.begin(), sent_.end(), [](const sent_call& one) { return one.caller == nullptr; }),
                std::memory_order_relaxed);
  }

  belfry belfry_{};  // its bits are given out under the mutex
  giving_way courtesy_{};
  std::mutex mutex_{};
  bool driven_ = false;       // somebody drives, or has been told to
  driver* driver_ = nullptr;  // while somebody does
  exchange_queue queue_{};
  std::vector<sent_call> sent_{};
  std::uint64_t taken_ = 0;
  std::atomic<bool> open_{false};
  std::atomic<bool> late_{false};

  // The sending side, this and the connection's: the driver's alone while it is sending, the mutex' otherwise.
  std::string unsent_{};
  std::atomic<bool> sending_{false};

  // The driver's alone, mutex or not.
  bool answered_ = false;  // something, since it was dialled
  connection connection_{};
  std::vector<reply> come_{};
};

}  // namespace ratelimit::detail
