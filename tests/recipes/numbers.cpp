// Numbers that leave 32 bits, 14 digits, or the whole numbers of a double.
#include <cstdint>
#include <string>
#include <vector>

#include <ratelimit/http/headers.hpp>

#include "rows.hpp"

namespace {

using namespace recipes;

constexpr std::int64_t most = (std::int64_t{1} << 53) - 1;

}  // namespace

TEMPLATE_TEST_CASE("Fifteen digits are counted to the unit", "[recipes]", on_memory, on_redis) {
  TestType b;
  // W0 is 840 s into its hour.
  follow(b, fixed_window(b, 1'000'000'000'000'000, 1h),
         {{0s, take(99'999'999'999'999), pass(99'999'999'999'999, 900'000'000'000'001, 2760s, 2760s)},
          {0s, take(100'000'000'000'000), pass(199'999'999'999'999, 800'000'000'000'001, 2760s, 2760s)},
          {0s, take(100'000'000'000'001), pass(300'000'000'000'000, 700'000'000'000'000, 2760s, 2760s)}});
  follow(b, fixed_window(b, most, 1h, "most"),
         {{0s, take(1), pass(1, 9'007'199'254'740'990, 2760s, 2760s)},
          {0s, take(most - 1), pass(most, 0, 2760s, 2760s)},
          {0s, take(1), deny(most, 0, 2760s, 2760s, 2760s)}});
}

// A wait below a second, below a millisecond too, is not cut to 0, and a denial is told by its own field.
TEMPLATE_TEST_CASE("A short wait stays a wait", "[recipes]", on_memory, on_redis) {
  TestType b;
  const microseconds all = TestType::second, ms = all / 1000us * 1us;
  follow(b, token_bucket(b, 3, 1, all),
         {{0us, take(), pass(1, 2, all, all)},
          {0us, take(), pass(2, 1, all, 2 * all)},
          {0us, take(), pass(3, 0, all, 3 * all)},
          {900 * ms, take(), deny(3, 0, 100 * ms, 100 * ms, 2100 * ms)},
          {999 * ms, take(), deny(3, 0, ms, ms, 2001 * ms)},
          {all - 1us, take(), deny(3, 0, 1us, 1us, 2 * all + 1us)},
          {all, take(), pass(3, 0, all, 3 * all)}});
}

TEMPLATE_TEST_CASE("A limit above 32 bits is honoured to the unit", "[recipes]", on_memory, on_redis) {
  TestType b;
  // W0 is 351 960 s before the end of its 30 days.
  follow(b, fixed_window(b, 30'000'000'000, 30 * 24h),
         {{0s, take(4'230'196'224), pass(4'230'196'224, 25'769'803'776, 351'960s, 351'960s)},
          {0s, take(25'769'803'776), pass(30'000'000'000, 0, 351'960s, 351'960s)},
          {0s, take(), deny(30'000'000'000, 0, 351'960s, 351'960s, 351'960s)}});
  // A header has all the digits.
  const auto fields = ratelimit::http::headers(fixed_window(b, 30'000'000'000, 30 * 24h).peek("client", "eu"));
  CHECK(fields.at(0) == std::pair<std::string, std::string>{"X-RateLimit-Limit", "30000000000"});
  CHECK(fields.at(3) == std::pair<std::string, std::string>{"RateLimit-Policy", "\"recipe\";q=30000000000;w=2592000"});
  follow(b, fixed_window(b, most, 30 * 24h, "count"),
         {{0s, take(2'147'483'648), pass(2'147'483'648, most - 2'147'483'648, 351'960s, 351'960s)},
          {0s, take(2'147'483'648), pass(4'294'967'296, most - 4'294'967'296, 351'960s, 351'960s)},
          {0s, take(10), pass(4'294'967'306, most - 4'294'967'306, 351'960s, 351'960s)}});
}

// Every algorithm, up to where limit * window has a hundred bits: not one unit too many, and the wait is exact.
TEMPLATE_TEST_CASE("Each limit up to 2^53 - 1 is exact", "[recipes]", on_memory, on_redis) {
  for (const std::int64_t limit : {std::int64_t{1} << 31, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 5, most}) {
    for (const ratelimit::period window : {ratelimit::period{60s}, ratelimit::period{std::chrono::years{10}}}) {
      TestType b;
      with_each(b, limit, window, [&](const auto& limiter, const char* tag) {
        INFO(tag << ", limit " << limit << ", window " << window.count() << " us");
        b.clock.set(w0);
        const auto first = limiter.check("client", {}, limit - 1);
        CHECK(first.allowed);
        CHECK(first.limit == limit);
        CHECK(first.used == limit - 1);
        CHECK(first.remaining == 1);
        CHECK_FALSE(limiter.check("client", {}, 2).allowed);
        const auto second = limiter.check("client");
        CHECK(second.allowed);
        CHECK(second.used == limit);
        CHECK(second.remaining == 0);

        const auto above = limiter.check("client", {}, limit + 1);
        CHECK_FALSE(above.allowed);
        CHECK_FALSE(above.retry_after.has_value());
        CHECK(above.used == limit);

        const auto denied = limiter.check("client", {}, limit);
        CHECK_FALSE(denied.allowed);
        CHECK(denied.remaining == 0);
        REQUIRE(denied.retry_after.has_value());
        b.clock.set(w0 + *denied.retry_after - 1us);
        CHECK_FALSE(limiter.check("client", {}, limit).allowed);
        b.clock.set(w0 + *denied.retry_after);
        const auto last = limiter.check("client", {}, limit);
        CHECK(last.allowed);
        CHECK(last.used == limit);
        CHECK(last.remaining == 0);
      });
    }
  }
}

// What a script works out in doubles beyond 2^53 is what 128-bit integers give in memory.
TEST_CASE("Script and memory agree where limit times window leaves 2^53", "[recipes]") {
  on_memory here;
  on_redis there;
  const ratelimit::period window = std::chrono::years{10};
  const microseconds steps[] = {0us, 1us, 7919us, 1h, 4000h, 1us, 43'829h + 17us, 40'000h, 9'999h, 1us};
  const auto same = [&](const auto& in_memory, const auto& on_server) {
    time_point now = w0;
    std::int64_t cost = most / 3;
    for (const microseconds step : steps) {
      now += step;
      here.clock.set(now);
      there.clock.set(now);
      for (const std::int64_t units : {cost, std::int64_t{1}, most / 7, most}) {
        INFO("at " << now.time_since_epoch().count() << " us, cost " << units);
        CHECK(figures(in_memory.check("client", {}, units)) == figures(on_server.check("client", {}, units)));
      }
      cost = cost * 7 / 11 + 1;
    }
  };
  same(sliding_log(here, most, window), sliding_log(there, most, window));
  same(sliding_counter(here, most, window), sliding_counter(there, most, window));
  same(token_bucket(here, most, most, window), token_bucket(there, most, most, window));
  same(token_bucket(here, most, most / 97, 1000s, "quick"), token_bucket(there, most, most / 97, 1000s, "quick"));
  same(fixed_window(here, most, window), fixed_window(there, most, window));
}

// The log's entries carry the units taken before them; before that count leaves 2^53 the script begins it anew.
TEMPLATE_TEST_CASE("A log that has taken more than 2^53 units goes on exactly", "[recipes]", on_memory, on_redis) {
  TestType b;
  const std::int64_t half = std::int64_t{1} << 52, quarter = half / 2;
  const auto log = sliding_log(b, most, 100s);
  follow(b, log,
         {{0s, take(half), pass(half, half - 1, 100s, 100s)},
          {50s, take(quarter), pass(half + quarter, quarter - 1, 50s, 100s)},
          {60s, take(7), pass(half + quarter + 7, quarter - 8, 40s, 100s)}});
  // 2^52 + 2^51 + 7 + 2^52 - 1 units were taken ever: the first of the three is out.
  follow(b, log,
         {{100s, take(half - 1), pass(half - 1 + quarter + 7, quarter - 7, 50s, 100s)},
          {100s, take(quarter - 6), deny(half - 1 + quarter + 7, quarter - 7, 50s, 50s, 100s)},
          {149s, take(1), pass(half + quarter + 7, quarter - 8, 1s, 100s)}});
  if constexpr (TestType::origin == ratelimit::source::redis) {
    // Each entry's first two numbers: the units taken before it, counted from the oldest in force, and its own.
    const auto entries =
        b.server.command({"EVAL",
                          "local told = {} for i, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                          "told[i] = string.format('%.0f %.0f', struct.unpack('>dd', entry)) end return told",
                          "1", "ratelimit:log:recipe:{client}:eu"});
    std::vector<std::string> told;
    for (const auto& one : entries.items) told.push_back(one.text);
    CHECK(told == std::vector<std::string>{"0 2251799813685248", "2251799813685248 7",
                                           "2251799813685255 4503599627370495", "6755399441055750 1"});
  }
  follow(b, log,
         {{150s, peek(), pass(half + 7, half - 8, 10s, 99s)},
          {150s, refund(2), pass(half + 5, half - 6, 10s, 50s)},
          {160s, peek(), pass(half - 2, half + 1, 40s, 40s)},
          {200s, peek(), untouched(most)}});
}

// Redis keeps an integer of 64 bits without a string of its own: where a window begins on a whole second and its counts
// are small, that is the state. A count goes into the larger form and back without a unit more or less.
TEMPLATE_TEST_CASE("A count leaves the small form and comes back to it", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto check_small = [&](const std::string& key, bool small) {
    if constexpr (TestType::origin == ratelimit::source::redis) {
      INFO(key);
      const auto encoding = b.server.command({"OBJECT", "ENCODING", "ratelimit:" + key + ":{client}:eu"}).text;
      CHECK((encoding == "int") == small);
    }
  };
  const auto counter = sliding_counter(b, 5000, 60s);
  follow(b, counter,
         {{0s, take(1498), pass(1498, 3502, 60'000'001us, 119'959'947us)},
          {0s, take(1), pass(1499, 3501, 60'000'001us, 119'959'974us)}});
  check_small("counter:recipe", true);
  follow(b, counter, {{0s, take(1), pass(1500, 3500, 60'000'001us, 119'960'001us)}});
  check_small("counter:recipe", false);
  follow(b, counter, {{60s, take(1499), pass(2999, 2001, 1us, 119'959'974us)}});
  check_small("counter:recipe", false);
  follow(b, counter, {{120s, take(1), pass(1500, 3500, 1us, 60'000'001us)}});
  check_small("counter:recipe", true);
  follow(b, counter, {{150s, peek(), pass(750, 4250, 20'014us, 30'000'001us)}});

  const auto window = fixed_window(b, 1'000'000, 60s);
  follow(b, window, {{0s, take(249'999), pass(249'999, 750'001, 60s, 60s)}});
  check_small("window:recipe", true);
  follow(b, window, {{0s, take(1), pass(250'000, 750'000, 60s, 60s)}});
  check_small("window:recipe", false);
  follow(b, window,
         {{60s, take(7), pass(7, 999'993, 60s, 60s)},
          {60s, refund(2), pass(5, 999'995, 60s, 60s)},
          {60s, take(2), pass(7, 999'993, 60s, 60s)}});
  check_small("window:recipe", true);

  // The 28'192'372nd of its windows, which does not begin on a whole second.
  follow(b, fixed_window(b, 10, 60'300ms, "odd"), {{0s, take(3), pass(3, 7, 51'900ms, 51'900ms)}});
  check_small("window:odd", false);
}

// The server's time comes with the state, in a reply of another form for each size of it.
TEST_CASE("By the server's clock a state of any size is told to the unit", "[recipes]") {
  on_redis b;
  using ratelimit::decision;
  const auto figures_at = [](const decision& d, const answer& want) {
    CHECK(figures(d) == want);
    CHECK(d.from == ratelimit::source::redis);
    CHECK(d.error == std::error_code{});
  };
  using ratelimit::fail;
  constexpr microseconds years = 3650 * 24h;
  const auto left = [&](const decision& d) { return years - d.at.time_since_epoch() % years; };
  const ratelimit::fixed_window fixed{
      b.store, {.name = "recipe", .limit = most, .window = years, .on_failure = fail::closed, .deadline = patience}};
  const decision one = fixed.check("client", "eu");
  figures_at(one, pass(1, most - 1, left(one), left(one)));
  const decision rest = fixed.check("client", "eu", most - 1);
  figures_at(rest, pass(most, 0, left(rest), left(rest)));

  const ratelimit::token_bucket bucket{b.store,
                                       {.name = "recipe",
                                        .capacity = 100'000'000,
                                        .refill = 1,
                                        .per = 60s,
                                        .on_failure = fail::closed,
                                        .deadline = patience}};
  figures_at(bucket.check("client", "eu", 2), pass(2, 99'999'998, 60s, 120s));

  for (const auto storage : {ratelimit::log_storage::sorted_set, ratelimit::log_storage::compact}) {
    CAPTURE(storage);
    const ratelimit::sliding_log log{b.store,
                                     {.name = "recipe",
                                      .limit = 2,
                                      .window = 1h,
                                      .storage = storage,
                                      .on_failure = fail::closed,
                                      .deadline = patience}};
    const decision first = log.check("client", "eu");
    figures_at(first, pass(1, 1, 1h, 1h));
    const decision second = log.check("client", "eu");
    figures_at(second, pass(2, 0, first.at + 1h - second.at, 1h));
    for (const decision& third : {log.check("client", "eu"), log.peek("client", "eu")}) {
      const microseconds wait = first.at + 1h - third.at;
      figures_at(third, deny(2, 0, wait, wait, second.at + 1h - third.at));
    }
    const decision dear = log.check("client", "eu", 2);
    figures_at(dear, deny(2, 0, second.at + 1h - dear.at, first.at + 1h - dear.at, second.at + 1h - dear.at));
  }
}
