// What a program can be told of: every decision, an identity that comes near its limit, a circuit breaker's changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <system_error>

#include <ratelimit/decision.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// One call of check, refund or a part of a combined one, as it was answered. Lives only during the callback.
struct observation {
  const decision& result;
  algorithm_id algorithm;
  operation op;
  std::chrono::nanoseconds took;  // the whole call, on the monotonic clock
};

// An admitted call took its identity over observer::near_ratio of the limit.
struct near_limit {
  const decision& result;
  std::string_view identity;
  std::string_view region;
};

// The state of the circuit breaker of one server. That of a server which the store asks no more, after a failover, is
// told as closed, if it was not; so is the parent's in a forked child, which has its own. A store that is destroyed
// tells nothing.
enum class breaker_state : std::uint8_t {
  closed,     // calls are sent
  open,       // calls are answered at once, without asking
  half_open,  // one call at a time is sent, to find out
};

struct breaker_change {
  std::string_view address;  // as in the URL, without credentials
  breaker_state state;
  std::error_code error;  // what opened it; empty when it closes
};

// Callbacks, each empty by default. They run on the thread that called, after the decision is made and with no lock
// held, so they may call the limiter again; several threads may be in one at a time. What they throw is dropped: a
// metric must not refuse a request. How long they take is not bounded, and is added to the call.
struct observer {
  std::function<void(const observation&)> decided{};
  // Once for each time an identity rises over near_ratio: told in the process whose call did it, and in no other.
  std::function<void(const near_limit&)> near{};
  std::function<void(const breaker_change&)> breaker{};  // only the Redis store's own observer hears it
  double near_ratio = 0.8;
};

namespace detail {

template <class Callback, class Event>
void tell(const Callback& callback, const Event& event) noexcept {
  if (!callback) return;
  try {
    callback(event);
  } catch (...) {
  }
}

}  // namespace detail
}  // namespace ratelimit
