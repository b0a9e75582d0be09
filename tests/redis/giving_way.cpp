// When callers of a crowd let others run before they sleep, by a clock of the test's.
#include <chrono>
#include <ratelimit/redis/giving_way.hpp>

#include "catch.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::detail::giving_way;

struct courtesy {
  giving_way one{};
  giving_way::clock::time_point now{1h};

  bool pays() const { return one.pays(now); }
  void yield_for(std::chrono::nanoseconds time, int times) {
    for (int i = 0; i < times; ++i) {
      one.note(now, now + time);
      now += time;
    }
  }
};

}  // namespace

TEST_CASE("giving way pays from the start, and however often others take less than a millisecond") {
  courtesy c;
  CHECK(c.pays());
  c.yield_for(1ms, 10'000);
  CHECK(c.pays());
  // One that is long alone does no harm.
  courtesy other;
  other.yield_for(100us, 1000);
  other.yield_for(20ms, 1);
  CHECK(other.pays());
}

TEST_CASE("others that take whole slices: giving way ends for 250 ms, and is tried anew") {
  courtesy c;
  // The mean of the last, each with the weight 1/32: 1 - (31/32)^12 is below a third, 1 - (31/32)^13 above it.
  c.yield_for(3ms, 12);
  CHECK(c.pays());
  c.yield_for(3ms, 1);
  CHECK_FALSE(c.pays());
  c.now += 250ms - 1ns;
  CHECK_FALSE(c.pays());
  c.now += 1ns;
  CHECK(c.pays());
  c.yield_for(3ms, 12);
  CHECK(c.pays());
  c.yield_for(3ms, 1);
  CHECK_FALSE(c.pays());
}
