// Each algorithm of the library, in each of its forms, beside its reference, for tests that run over all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <ratelimit/ratelimit.hpp>

#include "reference.hpp"

namespace property {

struct log_pair {
  static constexpr std::string_view name = "sliding_log";
  static constexpr std::string_view tag = "log";
  using model = reference::sliding_log;
  template <class Store, class Clock>
  using limiter = ratelimit::sliding_log<Store, Clock>;
};

struct compact_pair : log_pair {
  static constexpr std::string_view name = "sliding_log, compact";
  static constexpr std::string_view tag = "compact";
  static constexpr auto storage = ratelimit::log_storage::compact;
};

struct counter_pair {
  static constexpr std::string_view name = "sliding_counter";
  static constexpr std::string_view tag = "counter";
  using model = reference::sliding_counter;
  template <class Store, class Clock>
  using limiter = ratelimit::sliding_counter<Store, Clock>;
};

struct bucket_pair {
  static constexpr std::string_view name = "token_bucket";
  static constexpr std::string_view tag = "bucket";
  using model = reference::token_bucket;
  template <class Store, class Clock>
  using limiter = ratelimit::token_bucket<Store, Clock>;
};

struct fixed_pair {
  static constexpr std::string_view name = "fixed_window";
  static constexpr std::string_view tag = "window";
  using model = reference::fixed_window;
  template <class Store, class Clock>
  using limiter = ratelimit::fixed_window<Store, Clock>;
};

inline constexpr std::string_view limit_name = "property";

// Long enough for any machine: what is tested here is never how fast an answer comes.
inline constexpr std::chrono::seconds patience{30};

template <class Pair, class Store, class Clock>
auto make_limiter(Store& where, const reference::numbers& n, Clock clock) {
  using limiter = typename Pair::template limiter<Store, Clock>;
  typename limiter::options chosen{.name = std::string{limit_name}, .on_failure = ratelimit::fail::closed};
  if constexpr (requires { chosen.capacity; }) {
    chosen.capacity = n.limit;
    chosen.refill = n.refill;
    chosen.per = std::chrono::microseconds{n.window};
  } else {
    chosen.limit = n.limit;
    chosen.window = std::chrono::microseconds{n.window};
  }
  if constexpr (requires { Pair::storage; }) chosen.storage = Pair::storage;
  chosen.deadline = patience;
  return limiter{where, chosen, clock};
}

// The key a limiter of make_limiter counts an identity under.
template <class Pair>
std::string key_of(std::string_view identity) {
  return std::string{"ratelimit:"}
      .append(Pair::tag)
      .append(":")
      .append(limit_name)
      .append(":{")
      .append(identity)
      .append("}:");
}

}  // namespace property
