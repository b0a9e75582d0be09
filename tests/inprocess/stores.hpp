// Stores that do what a test needs: fail, or let something happen in the middle of a call.
#pragma once

#include <chrono>
#include <functional>
#include <system_error>
#include <utility>

#include <ratelimit/ratelimit.hpp>

#include "recipes/rows.hpp"

namespace inprocess {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;
using recipes::deny;
using recipes::figures;
using recipes::never;
using recipes::on_memory;
using recipes::on_redis;
using recipes::pass;
using recipes::untouched;
using recipes::w0;
using std::chrono::microseconds;

// Counts as the in-process store does while `error` is empty.
struct failing_store {
  static constexpr source origin = source::memory;

  ratelimit::memory counts{};
  std::error_code error{};
  int asked = 0;
  std::function<void()> before_answer{};

  ratelimit::outcome run(const ratelimit::request& what, const ratelimit::deadline& until) {
    ++asked;
    if (error) return {.error = error};
    const ratelimit::outcome seen = counts.run(what, until);
    if (before_answer) std::exchange(before_answer, {})();
    return seen;
  }
};

// A store that asks again soon after an outage.
inline constexpr std::chrono::milliseconds probe_pause{20};

inline ratelimit::redis_options asks_again_soon(const support::server& server, ratelimit::observer observer = {}) {
  return {.unix_path = server.socket_path(),
          .first_pause = probe_pause,
          .longest_pause = probe_pause,
          .observer = std::move(observer)};
}

}  // namespace inprocess
