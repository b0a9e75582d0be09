// `memory` never differs from the reference.
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "algorithms.hpp"
#include "catch.hpp"
#include "run.hpp"
#include "sequence.hpp"

using namespace property;

namespace {

template <class Pair>
std::optional<std::string> try_on_memory(const std::vector<call>& calls) {
  ratelimit::memory store{{.entries = 4}};
  subject<Pair, ratelimit::memory> tested{store, "somebody"};
  typename Pair::model model;
  return difference(
      calls, [&](const call& c) { return expected<Pair>(model, c, ratelimit::source::memory); },
      [&](const call& c) { return tested.run(c); });
}

template <class Pair>
void demand_equal(const profile& kind) {
  for (count i = 0; i < sequences(); ++i) {
    const std::vector<call> calls = writer<typename Pair::model>{seed_of(i), kind}.write();
    const std::string failure = report(Pair::name, i, calls, try_on_memory<Pair>);
    if (!failure.empty()) FAIL(failure);
  }
  SUCCEED();
}

}  // namespace

TEMPLATE_TEST_CASE("memory answers as the reference does, field by field", "[property]", log_pair, compact_pair,
                   counter_pair, bucket_pair, fixed_pair) {
  demand_equal<TestType>(any_window);
}

TEMPLATE_TEST_CASE("memory answers as the reference does where limit times window leaves 2^53", "[property]", log_pair,
                   compact_pair, counter_pair, bucket_pair, fixed_pair) {
  demand_equal<TestType>(huge_numbers);
}
