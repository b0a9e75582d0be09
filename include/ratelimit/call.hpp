// One call, for what the short form check(identity, region, cost) has no room for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ratelimit {

struct call {
  std::string_view identity;
  std::string_view region{};
  // Units; 0 is a peek.
  std::int64_t cost = 1;
  // The ceiling (a token bucket's capacity) for this customer, instead of the limiter's own; 1 to 2^53 - 1. The state
  // stays valid when it changes from one call to the next: what was used stays used. A token bucket keeps what is left,
  // and clamps it to the smaller capacity; its key lives as long as that takes to fill, and then it is full: do not mix
  // ceilings on one bucket.
  std::optional<std::int64_t> limit{};
  // A call with an id is counted once: the same id of the same identity and region again within one window of the
  // admitted call (a token bucket: the time it takes to fill), from any process, is admitted and not counted, unless a
  // block refuses it. A refused call is decided anew. refund and reset do not forget an id: take a new one after them.
  // peek does not look at ids. At most 512 bytes; empty: none. Costs one more key for each such call. Whoever chooses
  // the ids can pass again and again under one: take those of your own proxy, or make them of the request.
  std::string_view request_id{};
};

}  // namespace ratelimit
