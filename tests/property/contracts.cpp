// The two contracts a denial makes, each shown on a fresh key that went through the same calls: retry (denied one
// microsecond before, allowed then) and remaining (exactly so many more unit calls pass). The third one, no trace, is
// in redis.cpp; in `memory` it is that no later decision differs from the reference's, which a denial does not touch.
#include <chrono>
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

// Keys that nobody has used.
template <class Store>
class fresh_keys {
 public:
  explicit fresh_keys(Store& store) : store_{&store} {}

  template <class Pair>
  subject<Pair, Store> next() {
    return {*store_, std::to_string(++keys_)};
  }

 private:
  Store* store_;
  count keys_ = 0;
};

template <class Pair, class Fresh>
auto after(Fresh& fresh, const std::vector<call>& calls, std::size_t first) {
  auto tested = fresh.template next<Pair>();
  for (std::size_t i = 0; i < first; ++i) tested.run(calls[i]);
  return tested;
}

// With the clock behind what is stored, a wait ends with the key's lifetime, which no injected clock moves.
template <class Model>
bool waiting_helps(const Model& model, const call& c, count wait) {
  return c.now + wait <= most && model.used(c.numbers, c.now + wait) + c.cost <= c.numbers.limit;
}

// What one more call would write outlives the calls after it.
template <class Model>
bool lives_on(Model model, const call& c) {
  model.take(c.numbers, c.now, 1);
  return model.lifetime(c.numbers, c.now) >= long_windows.safe_lifetime;
}

template <class Pair, class Fresh>
std::optional<std::string> broken_retry(Fresh& fresh, const std::vector<call>& calls, std::size_t i, count wait) {
  call again = calls[i];
  auto tested = after<Pair>(fresh, calls, i);
  again.now = calls[i].now + wait - 1;
  const auto early = tested.run(again);
  if (early->allowed || early->retry_after != std::chrono::microseconds{1})
    return "one microsecond before retry_after: " + text_of(early);
  again.now += 1;
  const auto then = tested.run(again);
  if (!then->allowed) return "at retry_after: " + text_of(then);
  return std::nullopt;
}

template <class Pair, class Fresh>
std::optional<std::string> broken_remaining(Fresh& fresh, const std::vector<call>& calls, std::size_t i,
                                            count remaining) {
  auto tested = after<Pair>(fresh, calls, i + 1);
  call unit = calls[i];
  unit.what = act::check;
  if (remaining > 60) {  // too many to make one by one
    unit.cost = remaining;
    if (!tested.run(unit)->allowed) return "a call of what remains is denied";
    remaining = 0;
  }
  unit.cost = 1;
  for (count passed = 0; passed < remaining; ++passed)
    if (!tested.run(unit)->allowed) return "only " + std::to_string(passed) + " more unit calls pass";
  const auto last = tested.run(unit);
  if (last->allowed) return "another unit call passes: " + text_of(last);
  return std::nullopt;
}

template <class Pair, class Fresh>
std::optional<std::string> broken_contract(Fresh& fresh, const std::vector<call>& calls) {
  auto tested = fresh.template next<Pair>();
  typename Pair::model model;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const call& c = calls[i];
    const auto wanted = expected<Pair>(model, c, ratelimit::source::memory);
    const auto got = tested.run(c);
    if (c.what != act::check || !got->counted() || got->allowed) continue;
    const std::string where = "call " + std::to_string(i) + ": ";
    if (got->retry_after != wanted->retry_after || got->remaining != wanted->remaining)
      return where + "expected " + text_of(wanted) + ", got " + text_of(got);
    if (got->retry_after && c.cost > 0 && waiting_helps(model, c, got->retry_after->count()))
      if (const auto broken = broken_retry<Pair>(fresh, calls, i, got->retry_after->count())) return where + *broken;
    if (lives_on(model, c))
      if (const auto broken = broken_remaining<Pair>(fresh, calls, i, got->remaining)) return where + *broken;
  }
  return std::nullopt;
}

template <class Pair, class Fresh>
void keep_contracts(Fresh& fresh, count number) {
  for (count i = 0; i < number; ++i) {
    const std::vector<call> calls = writer<typename Pair::model>{seed_of(i), long_windows}.write();
    const std::string failure =
        report(Pair::name, i, calls, [&](const std::vector<call>& some) { return broken_contract<Pair>(fresh, some); });
    if (!failure.empty()) FAIL(failure);
  }
  SUCCEED();
}

}  // namespace

TEMPLATE_TEST_CASE("each denial of memory keeps its word", "[property]", log_pair, compact_pair, counter_pair,
                   bucket_pair, fixed_pair) {
  ratelimit::memory store;
  fresh_keys fresh{store};
  keep_contracts<TestType>(fresh, sequences());
}

TEMPLATE_TEST_CASE("each denial of Redis keeps its word", "[property]", log_pair, compact_pair, counter_pair,
                   bucket_pair, fixed_pair) {
  support::server server;
  ratelimit::redis store{server.url()};
  fresh_keys fresh{store};
  keep_contracts<TestType>(fresh, some_sequences());
}
