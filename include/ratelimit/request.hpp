// What a limiter asks of a store, and what comes back: plain values, no I/O.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include <ratelimit/decision.hpp>
#include <ratelimit/failure.hpp>

namespace ratelimit {

enum class algorithm_id : std::uint8_t { sliding_log, compact_log, sliding_counter, token_bucket, fixed_window };

enum class operation : std::uint8_t {
  take,    // decide, and count when allowed
  peek,    // decide, change nothing
  refund,  // give back
  block,   // refuse everything for a time
  reset,   // forget the key
};

// A limit's numbers, as they cross the wire. Times in microseconds.
struct rule {
  std::int64_t limit = 0;   // units; the capacity of a token bucket
  std::int64_t window = 0;  // length of the window; for a token bucket the period of `refill`
  std::int64_t refill = 0;  // token bucket only: tokens that come each window
};

struct request {
  algorithm_id algorithm;
  operation op;
  std::string_view key;  // encoded (key.hpp); at most a few kB
  rule numbers;
  std::int64_t cost;                // at least 1; of a block, its length in microseconds
  std::optional<std::int64_t> now;  // microseconds since the epoch; empty: the store's own clock
  bool binding = true;              // in a group: a refusal refuses the others too
  // A refund: when the units were taken; then nothing that a later window took is given back.
  std::optional<std::int64_t> taken{};
  // A call with an id: the key that remembers it, and for how long (microseconds); a refund forgets it. In a group, the
  // first request's.
  std::string_view once{};
  std::int64_t once_for = 0;
};

// What a store answers. `view` is the state the algorithm decided on, after the call: the same numbers from every
// store, of which the algorithm's `explain` makes the figures of a decision.
struct outcome {
  std::error_code error{};  // set: nothing else is
  bool allowed = false;
  bool repeated = false;  // its id was counted before: this call counted nothing
  std::int64_t now = 0;
  std::int64_t blocked = 0;  // when the key's block ends or ended; 0: there is none
  std::array<std::int64_t, 4> view{};
};

// A place where calls are counted. run() is called from many threads at once and is back by the deadline.
template <class T>
concept store = requires(T& where, const request& what, const deadline& until) {
  { where.run(what, until) } -> std::same_as<outcome>;
  { T::origin } -> std::convertible_to<source>;
};

// A store that also takes several requests in one round trip: run_many() answers each group of `together` consecutive
// requests as one, all or nothing, and the groups independently of each other; can_join() tells whether the keys of one
// group can be decided in one step (on a cluster they must share a slot). Groups of more than one hold takes, peeks and
// refunds alone.
template <class T>
concept batch_store = store<T> && requires(T& where, std::span<const request> what, std::size_t together,
                                           std::span<outcome> out, const deadline& until) {
  where.run_many(what, together, out, until);
  { where.can_join(what) } -> std::convertible_to<bool>;
};

}  // namespace ratelimit
