// Redis never differs from `memory`, and a call that is not counted leaves no trace in it.
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "algorithms.hpp"
#include "catch.hpp"
#include "run.hpp"
#include "sequence.hpp"
#include "support/server.hpp"

using namespace property;

namespace {

// What Redis holds of a key: the value's bytes, and its lifetime in milliseconds (-1: none, -2: no key).
struct trace {
  support::reply value;
  long long lifetime;
};

trace trace_of(support::server& server, const std::string& key) {
  return {server.command({"DUMP", key}), server.command({"PTTL", key}).number};
}

// Runs a sequence, and looks at the key before and after each call. Nothing, or what is wrong.
template <class Pair>
std::optional<std::string> wrong_trace(support::server& server, ratelimit::redis& store, const std::vector<call>& calls,
                                       const std::string& identity) {
  subject<Pair, ratelimit::redis> tested{store, identity};
  typename Pair::model model;
  const std::string key = key_of<Pair>(identity);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const call& c = calls[i];
    typename Pair::model twin = model;
    const bool writes = answer_to(twin, c).wrote;
    const auto wanted = expected<Pair>(model, c, ratelimit::source::redis);
    const trace before = trace_of(server, key);
    const auto got = tested.run(c);
    const trace after = trace_of(server, key);
    const std::string where = "call " + std::to_string(i) + ": ";
    if (!same(wanted, got)) return where + "expected " + text_of(wanted) + ", got " + text_of(got);

    if (writes) {
      // Exactly as long as it matters, less what the test itself took. Redis takes no more than 2^53 - 1 ms from a
      // script; a double rounds what is over 2^53 us.
      const reference::wide exact = (model.lifetime(c.numbers, c.now) + 999) / 1000;
      const auto wanted_lifetime = static_cast<count>(std::min<reference::wide>(exact, most));
      const count rounding = exact > most / 1000 ? 4 : 0;
      if (exact == 0 && after.lifetime != -2) return where + "the key of a full quota is still there";
      if (exact > 0 && (after.lifetime > wanted_lifetime + rounding || after.lifetime < wanted_lifetime - 120'000))
        return where + "lives for " + std::to_string(after.lifetime) + " ms, not " + std::to_string(wanted_lifetime);
    } else {
      if (after.value != before.value) return where + "has changed the value";
      if (after.lifetime > before.lifetime) return where + "has made the key live longer";
    }
  }
  return std::nullopt;
}

// Runs sequences on Redis and on `memory`, each on a fresh key, and demands equal decisions.
template <class Pair>
void demand_equal(count number, const profile& kind) {
  support::server server;
  ratelimit::redis store{server.url()};
  count keys = 0;
  const auto try_on_both = [&](const std::vector<call>& calls) {
    ratelimit::memory memory{{.entries = 4}};
    subject<Pair, ratelimit::memory> model{memory, "somebody"};
    subject<Pair, ratelimit::redis> tested{store, std::to_string(++keys)};
    return difference(
        calls,
        [&](const call& c) {
          auto d = model.run(c);
          if (d && d->from == ratelimit::source::memory) d->from = ratelimit::source::redis;
          return d;
        },
        [&](const call& c) { return tested.run(c); });
  };
  for (count i = 0; i < number; ++i) {
    const std::vector<call> calls = writer<typename Pair::model>{seed_of(i), kind}.write();
    const std::string failure = report(Pair::name, i, calls, try_on_both);
    if (!failure.empty()) FAIL(failure);
  }
  SUCCEED();
}

}  // namespace

TEMPLATE_TEST_CASE("Redis answers as memory does, field by field", "[property]", log_pair, compact_pair, counter_pair,
                   bucket_pair, fixed_pair) {
  demand_equal<TestType>(sequences(), long_windows);
}

TEMPLATE_TEST_CASE("Redis answers as memory does where limit times window leaves 2^53", "[property]", log_pair,
                   compact_pair, counter_pair, bucket_pair, fixed_pair) {
  demand_equal<TestType>(some_sequences(), huge_numbers);
}

TEMPLATE_TEST_CASE("in Redis a call that is not counted leaves no trace, and one that is leaves an exact lifetime",
                   "[property]", log_pair, compact_pair, counter_pair, bucket_pair, fixed_pair) {
  support::server server;
  ratelimit::redis store{server.url()};
  count keys = 0;
  const auto try_on_redis = [&](const std::vector<call>& calls) {
    return wrong_trace<TestType>(server, store, calls, std::to_string(++keys));
  };
  for (count i = 0; i < some_sequences(); ++i) {
    const std::vector<call> calls = writer<typename TestType::model>{seed_of(i), long_windows}.write();
    const std::string failure = report(TestType::name, i, calls, try_on_redis);
    if (!failure.empty()) FAIL(failure);
  }
  SUCCEED();
}
