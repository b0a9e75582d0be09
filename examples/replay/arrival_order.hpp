// Puts the requests of a log back into the order they came in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include <ratelimit/decision.hpp>

namespace replay {

// A server stamps a request when it comes and writes its line when the answer is out, so a slow answer stands in the
// log behind later requests. A limiter decides when the request comes: it must see the stamps' order. Each line waits
// until a stamp `span` later was read; of one second, lines keep the log's order. A line that is later still is handed
// out with the time already reached, since a server's clock does not run backwards either.
//
// Holds the requests of `span` in memory, no more.
template <class Request>
class arrival_order {
 public:
  static constexpr std::chrono::seconds span{60};

  // Calls out(time, request) for each request whose turn has come.
  template <class Out>
  void add(ratelimit::time_point time, Request request, Out&& out) {
    if (time < newest_) ++out_of_order_;
    if (time < reached_) ++late_;
    waiting_.emplace(std::max(time, reached_), std::move(request));
    newest_ = std::max(newest_, time);
    release(newest_ - span, out);
  }

  // The log is over: calls out(time, request) for those that still wait.
  template <class Out>
  void finish(Out&& out) {
    release(ratelimit::time_point::max(), out);
  }

  std::uint64_t out_of_order() const noexcept { return out_of_order_; }  // behind a line with a later stamp
  std::uint64_t late() const noexcept { return late_; }                  // of these, by more than `span`

 private:
  template <class Out>
  void release(ratelimit::time_point until, Out&& out) {
    while (!waiting_.empty() && waiting_.begin()->first <= until) {
      const auto first = waiting_.extract(waiting_.begin());
      reached_ = first.key();
      out(first.key(), first.mapped());
    }
  }

  std::multimap<ratelimit::time_point, Request> waiting_;
  ratelimit::time_point newest_ = ratelimit::time_point::min();
  ratelimit::time_point reached_ = ratelimit::time_point::min();
  std::uint64_t out_of_order_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace replay
