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

}  // namespace

TEMPLATE_TEST_CASE("memory answers as the reference does, field by field", "[property]", log_pair, counter_pair,
                   bucket_pair, fixed_pair) {
  for (count i = 0; i < sequences(); ++i) {
    const std::vector<call> calls = writer<typename TestType::model>{seed_of(i), any_window}.write();
    const std::string failure = report(TestType::name, i, calls, try_on_memory<TestType>);
    if (!failure.empty()) FAIL(failure);
  }
  SUCCEED();
}
