// Options out of range, calls that are malformed, shadow mode.
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;
using ratelimit::fail;
using ratelimit::period;

// The text that refuses to build a limiter; empty when it is built.
template <class Build>
std::string refusal(const Build& build) {
  try {
    static_cast<void>(build());
    return {};
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

const std::string not_a_count = " is not within 1 and 2^53 - 1";
const std::string not_a_window = " is not within 1 ms and 10 years";
constexpr std::int64_t most = (std::int64_t{1} << 53) - 1;

}  // namespace

// One meaning everywhere: there is no limiter with a limit of 0.
TEMPLATE_TEST_CASE("A number out of range is refused by name and value", "[recipes]", on_memory, on_redis) {
  TestType b;
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, most + 1, std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()}) {
    const std::string why = ": " + std::to_string(bad) + not_a_count;
    CHECK(refusal([&] { return sliding_log(b, bad, 60s); }) == "ratelimit: limit" + why);
    CHECK(refusal([&] { return sliding_counter(b, bad, 60s); }) == "ratelimit: limit" + why);
    CHECK(refusal([&] { return fixed_window(b, bad, 60s); }) == "ratelimit: limit" + why);
    CHECK(refusal([&] { return token_bucket(b, bad, 1, 60s); }) == "ratelimit: capacity" + why);
    CHECK(refusal([&] { return token_bucket(b, 3, bad, 1s); }) == "ratelimit: refill" + why);
  }
  for (const std::int64_t good : {std::int64_t{1}, most})
    CHECK(refusal([&] { return token_bucket(b, good, good, 60s); }).empty());
}

TEMPLATE_TEST_CASE("A length of time out of range is refused by name and value", "[recipes]", on_memory, on_redis) {
  TestType b;
  const std::string largest = "9223372036854775807us", smallest = "-9223372036854775808us";
  const std::pair<period, std::string> lengths[] = {
      {0s, "0us"},
      {999us, "999us"},
      {-1s, "-1000000us"},
      {std::chrono::years{10} + 1us, "315569520000001us"},
      {1'000'000'000s, "1000000000000000us"},
      {std::chrono::years{10'000}, "315569520000000000us"},
      {microseconds::max(), largest},
      {std::chrono::seconds::max(), largest},
      {std::chrono::hours::max(), largest},
      {microseconds::min(), smallest},
      {std::chrono::hours::min(), smallest},
  };
  for (const auto& [length, text] : lengths) {
    const period bad = length;
    const std::string why = ": " + text + not_a_window;
    CHECK(refusal([&] { return sliding_log(b, 1, bad); }) == "ratelimit: window" + why);
    CHECK(refusal([&] { return sliding_counter(b, 1, bad); }) == "ratelimit: window" + why);
    CHECK(refusal([&] { return fixed_window(b, 1, bad); }) == "ratelimit: window" + why);
    CHECK(refusal([&] { return token_bucket(b, 1, 1, bad); }) == "ratelimit: per" + why);
  }
  for (const period good : {period{1ms}, period{std::chrono::years{10}}})
    CHECK(refusal([&] { return sliding_log(b, 1, good); }).empty());
}

TEST_CASE("The other options are refused by name and value", "[recipes]") {
  ratelimit::memory store;
  const auto refusal_of = [&](auto change) {
    ratelimit::fixed_window_options options{.name = "n", .limit = 1, .window = 1s, .on_failure = fail::open};
    change(options);
    return refusal([&] { return ratelimit::fixed_window{store, options}; });
  };
  const std::string longest(512, 'x'), longer(513, 'x');
  CHECK(refusal_of([&](auto& o) { o.name = longest, o.prefix = longest; }).empty());
  CHECK(refusal_of([&](auto& o) { o.name = longer; }) == "ratelimit: name: 513 bytes is longer than 512 bytes");
  CHECK(refusal_of([&](auto& o) { o.prefix = longer; }) == "ratelimit: prefix: 513 bytes is longer than 512 bytes");
  for (const std::string bad : {"{", "a}b"})
    CHECK(refusal_of([&](auto& o) { o.prefix = bad; }) ==
          "ratelimit: prefix: " + bad + " holds a brace, which would move the hash tag");
  CHECK(refusal_of([&](auto& o) { o.per_region = {{longest, 1}}; }).empty());
  CHECK(refusal_of([&](auto& o) {
          o.per_region = {{longer, 1}};
        }) == "ratelimit: per_region: 513 bytes is longer than 512 bytes");
  CHECK(refusal_of([&](auto& o) { o.per_region = {{"eu", 0}}; }) == "ratelimit: per_region[\"eu\"]: 0" + not_a_count);
  CHECK(refusal_of([&](auto& o) {
          o.per_region = {{"eu", most + 1}};
        }) == "ratelimit: per_region[\"eu\"]: 9007199254740992" + not_a_count);
  CHECK(refusal_of([&](auto& o) { o.deadline = 0s; }) == "ratelimit: deadline: 0us is not within 1 us and 1 hour");
  CHECK(refusal_of([&](auto& o) { o.deadline = -1ms; }) ==
        "ratelimit: deadline: -1000us is not within 1 us and 1 hour");
  CHECK(refusal_of([&](auto& o) { o.deadline = 1h + 1us; }) ==
        "ratelimit: deadline: 3600000001us is not within 1 us and 1 hour");
  CHECK(refusal_of([&](auto& o) { o.deadline = 1us; }).empty());
  CHECK(refusal([] { return std::make_unique<ratelimit::memory>(ratelimit::memory_options{.entries = 0}); }) ==
        "ratelimit: entries: 0 is not at least 1");
}

// A client must not choose the outage's path: whatever on_failure says, a malformed call is denied, and nothing is
// sent.
TEST_CASE("A malformed call is denied whatever on_failure says", "[recipes]") {
  on_redis b;
  monitor watch{b.server};
  for (const fail mode : {fail::open, fail::closed, fail::local}) {
    const ratelimit::sliding_log limiter{
        b.store, {.name = "recipe", .limit = 5, .window = 60s, .on_failure = mode, .deadline = patience}, b.clock};
    const auto check_invalid = [&](const std::string& identity, const std::string& region, std::int64_t cost,
                                   ratelimit::errc why) {
      for (const call& what : {take(cost), peek(cost), refund(cost)}) {
        const auto d = make(limiter, what, identity, region);
        CHECK(figures(d) == never(0, 0, 0us, 0us));
        CHECK(d.from == ratelimit::source::invalid);
        CHECK(d.error == why);
        CHECK(d.limit_name == "recipe");
        CHECK(d.limit == 5);
        CHECK(d.window == 60s);
        CHECK(d.at == w0);
        CHECK_FALSE(d.counted());
        CHECK_FALSE(d.would_deny);
      }
    };
    check_invalid("", "eu", 1, ratelimit::errc::invalid_identity);
    check_invalid(std::string(513, 'x'), "eu", 1, ratelimit::errc::invalid_identity);
    check_invalid(std::string(1'000'000, 'x'), "eu", 1, ratelimit::errc::invalid_identity);
    check_invalid("client", std::string(513, 'x'), 1, ratelimit::errc::invalid_region);
    check_invalid("client", std::string(1'000'000, 'x'), 1, ratelimit::errc::invalid_region);
    check_invalid("client", "eu", -1, ratelimit::errc::invalid_cost);
    CHECK(watch.commands().empty());
    CHECK(limiter.check(std::string(512, 'x'), std::string(512, 'y')).allowed);
    watch.commands();
  }
}

// What is no part of the key need not be valid.
TEMPLATE_TEST_CASE("A scope without identities takes any", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto limiter_by = [&](ratelimit::scope by, std::string name) {
    return ratelimit::fixed_window{b.store,
                                   {.name = std::move(name),
                                    .limit = 2,
                                    .window = 60s,
                                    .on_failure = fail::closed,
                                    .by = by,
                                    .deadline = patience},
                                   b.clock};
  };
  const std::string huge(1'000'000, 'x');
  const auto by_region = limiter_by(ratelimit::scope::region, "region");
  CHECK(by_region.check("", "eu").used == 1);
  CHECK(by_region.check(huge, "eu").used == 2);
  CHECK(by_region.check("", huge).error == ratelimit::errc::invalid_region);
  const auto by_identity = limiter_by(ratelimit::scope::identity, "identity");
  CHECK(by_identity.check("client", huge).used == 1);
  CHECK(by_identity.check("", "eu").error == ratelimit::errc::invalid_identity);
  CHECK(limiter_by(ratelimit::scope::everyone, "everyone").check("", huge).used == 1);
}

TEMPLATE_TEST_CASE("Shadow mode reports and never denies", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto in_shadow = [&](bool shadow) {
    return ratelimit::sliding_log{b.store,
                                  {.name = "recipe",
                                   .limit = 2,
                                   .window = 60s,
                                   .on_failure = fail::closed,
                                   .deadline = patience,
                                   .shadow = shadow},
                                  b.clock};
  };
  const auto limiter = in_shadow(true);
  for (int i = 0; i < 2; ++i) {
    const auto d = limiter.check("client");
    CHECK(d.allowed);
    CHECK_FALSE(d.would_deny);
  }
  for (const std::int64_t cost : {1, 1, 3}) {
    const auto d = limiter.check("client", {}, cost);
    CHECK(figures(d) == pass(2, 0, 60s, 60s));  // the numbers are the real ones, and it was not counted
    CHECK(d.would_deny);
    CHECK(d.from == TestType::origin);
    CHECK(d.error == std::error_code{});
  }
  const auto malformed = limiter.check("");
  CHECK(malformed.allowed);
  CHECK(malformed.would_deny);
  CHECK(malformed.from == ratelimit::source::invalid);
  CHECK(malformed.error == ratelimit::errc::invalid_identity);
  CHECK(figures(in_shadow(false).check("client")) == deny(2, 0, 60s, 60s, 60s));
}
