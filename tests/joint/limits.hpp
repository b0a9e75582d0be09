// The limits that the tests of this folder combine, with the options that most of them do not speak of.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <ratelimit/ratelimit.hpp>

#include "recipes/backends.hpp"

namespace joint {

using namespace std::chrono_literals;
using namespace ratelimit;
using recipes::microseconds;
using recipes::midnight;
using recipes::on_memory;
using recipes::on_redis;
using recipes::patience;
using recipes::w0;

struct setup {
  scope by = scope::identity_and_region;
  bool shadow = false;
  fail on_failure = fail::closed;
  period deadline = patience;
  double local_share = 1;
  ratelimit::observer observer{};
};

template <class Options>
Options with(Options chosen, setup s) {
  chosen.on_failure = s.on_failure;
  chosen.by = s.by;
  chosen.shadow = s.shadow;
  chosen.deadline = s.deadline;
  chosen.local_share = s.local_share;
  chosen.observer = std::move(s.observer);
  return chosen;
}

// `b`: what has a store and a clock.
template <class Backend>
auto log_of(Backend& b, std::string name, std::int64_t limit, period window, setup s = {}) {
  return sliding_log{
      b.store,
      with<sliding_log_options>({.name = std::move(name), .limit = limit, .window = window, .on_failure = fail::open},
                                std::move(s)),
      b.clock};
}

template <class Backend>
auto counter_of(Backend& b, std::string name, std::int64_t limit, period window, setup s = {}) {
  return sliding_counter{
      b.store,
      with<sliding_counter_options>(
          {.name = std::move(name), .limit = limit, .window = window, .on_failure = fail::open}, std::move(s)),
      b.clock};
}

// As many tokens come each `window` as the bucket holds.
template <class Backend>
auto bucket_of(Backend& b, std::string name, std::int64_t capacity, period window, setup s = {}) {
  return token_bucket{
      b.store,
      with<token_bucket_options>(
          {.name = std::move(name), .capacity = capacity, .refill = capacity, .per = window, .on_failure = fail::open},
          std::move(s)),
      b.clock};
}

template <class Backend>
auto window_of(Backend& b, std::string name, std::int64_t limit, period window, setup s = {}) {
  return fixed_window{
      b.store,
      with<fixed_window_options>({.name = std::move(name), .limit = limit, .window = window, .on_failure = fail::open},
                                 std::move(s)),
      b.clock};
}

// Calls `use` with each of the four.
template <class Backend, class Use>
void with_each(Backend& b, std::string name, std::int64_t limit, period window, setup s, const Use& use) {
  use(log_of(b, name, limit, window, s));
  use(counter_of(b, name, limit, window, s));
  use(bucket_of(b, name, limit, window, s));
  use(window_of(b, name, limit, window, s));
}

}  // namespace joint
