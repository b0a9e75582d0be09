// A refusal by one limit, wherever it stands, leaves no trace in the others.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "recipes/monitor.hpp"

using namespace joint;

namespace {

// What is expected of one algorithm after calls at midnight, with a window of one hour.
struct log_kind {
  static constexpr std::string_view tag = "log";
  static constexpr microseconds wait_of_two = 1h;  // until one of two units is back
  template <class Backend>
  static auto make(Backend& b, std::string name, std::int64_t limit) {
    return log_of(b, std::move(name), limit, 1h);
  }
  static std::string lifetime(std::int64_t, std::int64_t) { return "3600000"; }
  static microseconds full(std::int64_t, std::int64_t) { return 1h; }
  static microseconds reset(std::int64_t, std::int64_t) { return 1h; }
};

struct counter_kind {
  static constexpr std::string_view tag = "counter";
  static constexpr microseconds wait_of_two = 1h + 1us;  // in the next window both weigh until it is past its start
  template <class Backend>
  static auto make(Backend& b, std::string name, std::int64_t limit) {
    return counter_of(b, std::move(name), limit, 1h);
  }
  static std::string lifetime(std::int64_t, std::int64_t) { return "7200000"; }
  // Nothing is left of one unit at once, of two when the window is half over.
  static microseconds full(std::int64_t, std::int64_t used) {
    return used == 1 ? microseconds{1h + 1us} : 1h + 30min + 1us;
  }
  static microseconds reset(std::int64_t, std::int64_t) { return 1h + 1us; }
};

struct bucket_kind {
  static constexpr std::string_view tag = "bucket";
  static constexpr microseconds wait_of_two = 30min;  // a bucket of two, full in an hour
  template <class Backend>
  static auto make(Backend& b, std::string name, std::int64_t limit) {
    return bucket_of(b, std::move(name), limit, 1h);
  }
  static std::string lifetime(std::int64_t limit, std::int64_t used) {
    return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(full(limit, used)).count());
  }
  static microseconds full(std::int64_t limit, std::int64_t used) { return microseconds{1h} * used / limit; }
  static microseconds reset(std::int64_t limit, std::int64_t) { return microseconds{1h} / limit; }
};

struct window_kind {
  static constexpr std::string_view tag = "window";
  static constexpr microseconds wait_of_two = 1h;
  template <class Backend>
  static auto make(Backend& b, std::string name, std::int64_t limit) {
    return window_of(b, std::move(name), limit, 1h);
  }
  static std::string lifetime(std::int64_t, std::int64_t) { return "3600000"; }
  static microseconds full(std::int64_t, std::int64_t) { return 1h; }
  static microseconds reset(std::int64_t, std::int64_t) { return 1h; }
};

// Every field of one limit's part, after `used` of `limit` units.
template <class Kind, class Backend>
void check_part(const Backend& b, const decision& d, std::string_view name, std::int64_t limit, std::int64_t used,
                bool denied) {
  INFO(Kind::tag << " as " << name);
  CHECK(d.allowed == !denied);
  CHECK(d.from == Backend::origin);
  CHECK(d.error == std::error_code{});
  CHECK(d.limit_name == name);
  CHECK(d.limit == limit);
  CHECK(d.used == used);
  CHECK(d.remaining == limit - used);
  CHECK((d.retry_after == (denied ? std::optional{Kind::wait_of_two} : std::nullopt)));
  CHECK((d.reset_after == Kind::reset(limit, used)));
  CHECK((d.full_after == Kind::full(limit, used)));
  CHECK((d.at == b.clock.now()));
  CHECK_FALSE(d.would_deny);
  CHECK((d.window == 1h));
}

template <class Kind>
std::string key_of(std::string_view name) {
  return "ratelimit:" + std::string{Kind::tag} + ":" + std::string{name} + ":{client}:eu";
}

// What Redis holds of a key.
struct trace {
  support::reply value;
  support::reply lifetime;
};

// Three limits of 5, the one at `binding` of 2: the third call is refused by that one.
template <class First, class Middle, class Last, class Backend>
void refuse_at(Backend& b, std::size_t binding) {
  INFO(First::tag << ", " << Middle::tag << ", " << Last::tag << ", refused by the one at " << binding);
  const auto limit = [&](std::size_t i) { return std::int64_t{i == binding ? 2 : 5}; };
  const all_of three{First::make(b, "first", limit(0)), Middle::make(b, "middle", limit(1)),
                     Last::make(b, "last", limit(2))};
  const auto check_parts = [&](const auto& d, std::int64_t used, bool denied) {
    check_part<First>(b, d.parts[0], "first", limit(0), used, denied && binding == 0);
    check_part<Middle>(b, d.parts[1], "middle", limit(1), used, denied && binding == 1);
    check_part<Last>(b, d.parts[2], "last", limit(2), used, denied && binding == 2);
    // The verdict is the binding part's, field by field.
    const decision& part = d.parts[binding];
    CHECK(d.allowed == !denied);
    CHECK(d.limit_name == part.limit_name);
    CHECK(d.from == part.from);
    CHECK(d.limit == part.limit);
    CHECK(d.used == part.used);
    CHECK(d.remaining == part.remaining);
    CHECK((d.retry_after == part.retry_after));
    CHECK((d.reset_after == part.reset_after));
    CHECK((d.full_after == part.full_after));
    CHECK((d.at == part.at));
    CHECK_FALSE(d.would_deny);
  };

  if constexpr (std::is_same_v<Backend, on_memory>) {
    b.store.clear();
    for (std::int64_t used = 1; used <= 2; ++used) check_parts(three.check("client", "eu"), used, false);
    for (int i = 0; i < 3; ++i) check_parts(three.check("client", "eu"), 2, true);
    CHECK(b.store.size() == 3);
  } else {
    b.server.command({"FLUSHALL"});
    recipes::monitor monitor{b.server};
    for (std::int64_t used = 1; used <= 2; ++used) {
      check_parts(three.check("client", "eu"), used, false);
      // Each limit asks those after it before it takes.
      CHECK(monitor.lifetimes() == std::vector{Last::lifetime(limit(2), used), Middle::lifetime(limit(1), used),
                                               First::lifetime(limit(0), used)});
    }
    std::vector<trace> before;
    const std::vector<std::string> keys{key_of<First>("first"), key_of<Middle>("middle"), key_of<Last>("last")};
    for (const std::string& key : keys)
      before.push_back({b.server.command({"DUMP", key}), b.server.command({"PTTL", key})});
    for (int i = 0; i < 3; ++i) check_parts(three.check("client", "eu"), 2, true);
    CHECK(monitor.lifetimes().empty());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CAPTURE(keys[i]);
      CHECK(before[i].value.type == support::reply::string);
      CHECK(b.server.command({"DUMP", keys[i]}) == before[i].value);
      const long long left = b.server.command({"PTTL", keys[i]}).number;
      CHECK(left <= before[i].lifetime.number);
      CHECK(left > 0);
      if (keys[i].find(":log:") == std::string::npos) continue;
      // Two members, both of midnight.
      CHECK(b.server.command({"ZCARD", keys[i]}).number == 2);
      CHECK(b.server.command({"ZCOUNT", keys[i], "1700006400000000", "1700006400000000"}).number == 2);
    }
    CHECK(b.server.command({"DBSIZE"}).number == 3);
  }
}

template <class A, class B, class C, class Backend>
void refuse_in_every_order(Backend& b) {
  for (std::size_t binding = 0; binding < 3; ++binding) {
    refuse_at<A, B, C>(b, binding);
    refuse_at<A, C, B>(b, binding);
    refuse_at<B, A, C>(b, binding);
    refuse_at<B, C, A>(b, binding);
    refuse_at<C, A, B>(b, binding);
    refuse_at<C, B, A>(b, binding);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a refusal by the first, the middle or the last of three, in every order", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(midnight);
  refuse_in_every_order<log_kind, counter_kind, window_kind>(b);
  refuse_in_every_order<bucket_kind, window_kind, log_kind>(b);
}

TEMPLATE_TEST_CASE("two limits of one identity do not share a counter", "[joint]", on_memory, on_redis) {
  TestType b;
  const all_of quota{window_of(b, "minute", 3, 60 * TestType::second),
                     window_of(b, "day", 30, 86400 * TestType::second)};
  const auto first = quota.check("client", "eu");
  CHECK(first.parts[0].remaining == 2);
  CHECK(first.parts[1].remaining == 29);
  quota.check("client", "eu");
  const auto third = quota.check("client", "eu");
  CHECK(third.allowed);
  CHECK(third.parts[0].remaining == 0);
  CHECK(third.parts[1].remaining == 27);
  const auto fourth = quota.check("client", "eu");
  CHECK_FALSE(fourth.allowed);
  CHECK(fourth.limit_name == "minute");
  CHECK_FALSE(fourth.parts[0].allowed);
  CHECK(fourth.parts[1].allowed);
  CHECK(fourth.parts[1].remaining == 27);
  CHECK(b.keys() == 2);
}

TEMPLATE_TEST_CASE("the four algorithms under one name, each as if alone", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto log = log_of(b, "same", 100, 24h);
  const auto counter = counter_of(b, "same", 100, 24h);
  const auto bucket = bucket_of(b, "same", 100, 24h);
  const auto window = window_of(b, "same", 100, 24h);
  const all_of every{log, counter, bucket, window};
  const auto alone = [&](std::int64_t used) {
    return std::vector{log.peek("client", "eu").used, counter.peek("client", "eu").used,
                       bucket.peek("client", "eu").used,
                       window.peek("client", "eu").used} == std::vector<std::int64_t>{used, used, used, used};
  };
  for (std::int64_t n = 1; n <= 25; ++n) {
    for (const decision& d : {log.check("client", "eu"), counter.check("client", "eu"), bucket.check("client", "eu"),
                              window.check("client", "eu")}) {
      CHECK(d.allowed);
      CHECK(d.from == TestType::origin);
      CHECK(d.used == 4 * n - 3);
    }
    const auto d = every.check("client", "eu", 3);
    for (const decision& part : d.parts) CHECK(part.used == 4 * n);
    CHECK(alone(4 * n));
  }
  const auto denied = every.check("client", "eu");
  CHECK_FALSE(denied.allowed);
  for (const decision& part : denied.parts) CHECK_FALSE(part.allowed);
  CHECK(b.keys() == 4);
}

TEMPLATE_TEST_CASE("of several refusals the longest wait is told, one without end before all", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  b.clock.set(midnight);
  const all_of quota{window_of(b, "hour", 2, 1h), window_of(b, "day", 2, 24h), log_of(b, "week", 3, 168h)};
  for (int i = 0; i < 2; ++i) CHECK(quota.check("client", "eu").allowed);
  const auto both = quota.check("client", "eu");
  CHECK(both.limit_name == "day");
  CHECK((both.retry_after == 24h));
  CHECK((both.parts[0].retry_after == 1h));
  CHECK(both.parts[2].allowed);
  const auto three = quota.check("client", "eu", 2);
  CHECK(three.limit_name == "week");
  CHECK((three.retry_after == 168h));
  CHECK((three.parts[1].retry_after == 24h));
  const auto never = quota.check("client", "eu", 3);
  CHECK(never.limit_name == "hour");  // the first of two that can never admit it
  CHECK_FALSE(never.allowed);
  CHECK(never.retry_after == std::nullopt);
  CHECK(never.parts[1].retry_after == std::nullopt);
  CHECK((never.parts[2].retry_after == 168h));
  for (const decision& part : never.parts) CHECK(part.used == 2);
  // The word is kept: denied one microsecond before, allowed then.
  b.clock.set(midnight + 24h - 1us);
  CHECK_FALSE(quota.check("client", "eu").allowed);
  b.clock.set(midnight + 24h);
  CHECK(quota.check("client", "eu").allowed);
}

TEMPLATE_TEST_CASE("of several that allow, the smallest share left is told", "[joint]", on_memory, on_redis) {
  TestType b;
  const all_of quota{window_of(b, "large", 1000, 24h), window_of(b, "small", 10, 24h), window_of(b, "same", 10, 24h)};
  CHECK(quota.peek("client", "eu").limit_name == "large");  // all full: the first
  const auto d = quota.check("client", "eu");
  CHECK(d.limit_name == "small");
  CHECK(d.remaining == 9);
}

TEMPLATE_TEST_CASE("a shadow limit in a combination decides and reports, and never denies", "[joint]", on_memory,
                   on_redis) {
  TestType b;
  const all_of quota{window_of(b, "tried", 1, 24h, {.shadow = true}), window_of(b, "held", 3, 24h)};
  CHECK_FALSE(quota.check("client", "eu").would_deny);
  for (std::int64_t used = 2; used <= 3; ++used) {
    const auto d = quota.check("client", "eu");
    CHECK(d.allowed);
    CHECK(d.would_deny);
    CHECK(d.parts[0].allowed);
    CHECK(d.parts[0].would_deny);
    CHECK(d.parts[0].retry_after == std::nullopt);
    CHECK(d.parts[0].used == 1);  // what it would have denied is not counted
    CHECK_FALSE(d.parts[1].would_deny);
    CHECK(d.parts[1].used == used);
  }
  const auto denied = quota.check("client", "eu");
  CHECK_FALSE(denied.allowed);
  CHECK(denied.limit_name == "held");
  CHECK(denied.would_deny);
  // A cost that only the shadow limit can never admit is counted by the other.
  CHECK_FALSE(quota.reset("client", "eu"));
  const auto large = quota.check("client", "eu", 2);
  CHECK(large.allowed);
  CHECK(large.would_deny);
  CHECK(large.parts[0].used == 0);
  CHECK(large.parts[1].used == 2);
}

TEMPLATE_TEST_CASE("a combination's peek, refund and reset", "[joint]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const all_of quota{log_of(b, "log", 5, 24h), counter_of(b, "counter", 5, 24h), bucket_of(b, "bucket", 5, 24h),
                     window_of(b, "window", 5, 24h)};
  const auto used = [](const auto& d) {
    std::vector<std::int64_t> all;
    for (const decision& part : d.parts) all.push_back(part.used);
    return all;
  };
  using counts = std::vector<std::int64_t>;
  CHECK(used(quota.peek("client", "eu", 5)) == counts{0, 0, 0, 0});
  CHECK(b.keys() == 0);
  CHECK(used(quota.check("client", "eu", 4)) == counts{4, 4, 4, 4});
  CHECK(used(quota.check("client", "eu", 0)) == counts{4, 4, 4, 4});
  CHECK(quota.peek("client", "eu", 1).allowed);
  CHECK_FALSE(quota.peek("client", "eu", 2).allowed);
  CHECK(used(quota.refund("client", "eu", 3)) == counts{1, 1, 1, 1});
  CHECK(used(quota.refund("client", "eu", 9)) == counts{0, 0, 0, 0});
  CHECK(b.keys() == 0);
  CHECK(used(quota.check("client", "eu", 2)) == counts{2, 2, 2, 2});

  // A day later, what was taken the day before is given back to that day, or not at all.
  b.clock.set(midnight + 36h);
  CHECK(used(quota.check("client", "eu")) == counts{1, 2, 1, 1});
  const auto late = quota.refund("client", "eu", 2, midnight);
  CHECK(used(late) == counts{1, 1, 0, 1});

  CHECK(quota.reset("client", "us") == std::error_code{});
  CHECK(b.keys() == 3);
  CHECK(quota.reset("client", "eu") == std::error_code{});
  CHECK(b.keys() == 0);
  CHECK(quota.reset("", "eu") == errc::invalid_identity);
}

TEMPLATE_TEST_CASE("a combination's malformed calls are counted by none", "[joint]", on_memory, on_redis) {
  TestType b;
  const all_of quota{window_of(b, "one", 5, 24h), window_of(b, "all", 5, 24h, {.by = scope::everyone})};
  for (const auto& [c, why] : std::vector<std::pair<call, errc>>{
           {{.identity = ""}, errc::invalid_identity},
           {{.identity = "client", .cost = -1}, errc::invalid_cost},
           {{.identity = "client", .limit = 5}, errc::invalid_limit},
       }) {
    const auto d = quota.check(c);
    CHECK_FALSE(d.allowed);
    CHECK(d.from == source::invalid);
    CHECK(d.error == why);
    for (const decision& part : d.parts) {
      CHECK_FALSE(part.allowed);
      CHECK(part.from == source::invalid);
      CHECK(part.error == why);
    }
  }
  CHECK(b.keys() == 0);
}

TEST_CASE("limits that cannot stand together are refused by their names") {
  on_memory b, other;
  const auto why = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "taken";
  };
  CHECK(why([&] {
          all_of{window_of(b, "a", 1, 1min), window_of(other, "b", 1, 1min)};
        }) == "ratelimit: all_of: ratelimit:window:b stands on another store than the first limit");
  CHECK(why([&] {
          all_of{window_of(b, "a", 1, 1min), log_of(b, "b", 1, 1min), window_of(b, "a", 2, 1h)};
        }) == "ratelimit: all_of: ratelimit:window:a is given twice: two limits need two names");
  CHECK(why([&] {
          all_of{window_of(b, "a", 1, 1min), log_of(b, "a", 1, 1min),
                 window_of(b, "a", 1, 1min, {.by = scope::identity})};
        }) == "taken");
}
