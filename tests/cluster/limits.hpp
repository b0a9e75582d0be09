// What the tests of this folder ask of a store.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <ratelimit/redis/slot.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "catch.hpp"

namespace clusters {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;

// What a script answers that took one unit of ten.
inline const std::string taken = "*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:1\r\n";

using window = ratelimit::fixed_window<ratelimit::redis>;

inline window limiter_on(ratelimit::redis& store, std::chrono::microseconds deadline = 5s, std::int64_t limit = 10) {
  return {store, {.name = "t", .limit = limit, .window = 24h, .on_failure = fail::closed, .deadline = deadline}};
}

inline std::uint16_t slot_of_identity(std::string_view identity) {
  return ratelimit::detail::slot_of("{" + std::string{identity} + "}");
}

// An identity whose keys' slot is within these two, the `number`th there is.
inline std::string identity_within(int first, int last, int number = 0) {
  for (int i = 0;; ++i) {
    std::string made = "u" + std::to_string(i);
    const int slot = slot_of_identity(made);
    if (slot >= first && slot <= last && number-- == 0) return made;
  }
}

inline void check_taken(const ratelimit::decision& d, std::int64_t used = 1) {
  CHECK(d.error == std::error_code{});
  CHECK(d.from == source::redis);
  CHECK(d.allowed);
  CHECK(d.used == used);
  CHECK(d.remaining == d.limit - used);
}

inline void check_uncounted(const ratelimit::decision& d, errc why) {
  CHECK(d.error == why);
  CHECK(d.from == source::failed_closed);
  CHECK_FALSE(d.allowed);
  CHECK_FALSE(d.counted());
  CHECK(d.used == 0);
  CHECK(d.remaining == 0);
}

}  // namespace clusters
