// The fields as real limiters fill them: the sequences a client sees.
#include <string>

#include "catch.hpp"

#include <ratelimit/all_of.hpp>
#include <ratelimit/clock.hpp>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/http/headers.hpp>
#include <ratelimit/http/problem.hpp>
#include <ratelimit/http/status.hpp>
#include <ratelimit/memory.hpp>
#include <ratelimit/token_bucket.hpp>

using namespace ratelimit;
using namespace std::chrono_literals;
using http::fields;
using http::header_list;

namespace {

constexpr time_point w0{1'700'000'040s};  // where a minute, and a window of 10 s, begins

std::string retry_after(const decision& d) {
  const header_list h = http::headers(d, fields::retry_after);
  return h.empty() ? "" : h.front().second;
}

}  // namespace

TEST_CASE("five calls a minute: what the client is told, whatever the prefix of the key") {
  for (const std::string prefix : {"ratelimit:", "", "api:"}) {
    memory store;
    const manual_clock clock{w0 + 10s};
    const fixed_window limit{
        store, {.name = "login", .limit = 5, .window = 60s, .on_failure = fail::closed, .prefix = prefix}, clock};
    for (const std::string left : {"4", "3", "2", "1", "0"}) {
      const decision d = limit.check("anna");
      CHECK(http::status(d) == 200);
      CHECK(http::problem_json(d) == "");
      CHECK(http::headers(d) == header_list{{"X-RateLimit-Limit", "5"},
                                            {"X-RateLimit-Remaining", left},
                                            {"X-RateLimit-Reset", "1700000100"},
                                            {"RateLimit-Policy", "\"login\";q=5;w=60"},
                                            {"RateLimit", "\"login\";r=" + left + ";t=50"}});
    }
    const decision d = limit.check("anna");
    CHECK(http::status(d) == 429);
    CHECK(http::headers(d) == header_list{{"X-RateLimit-Limit", "5"},
                                          {"X-RateLimit-Remaining", "0"},
                                          {"X-RateLimit-Reset", "1700000100"},
                                          {"RateLimit-Policy", "\"login\";q=5;w=60"},
                                          {"RateLimit", "\"login\";r=0;t=50"},
                                          {"Retry-After", "50"}});
  }
}

TEST_CASE("a client that waits as long as Retry-After says is never refused twice in a row") {
  memory store;
  manual_clock clock{w0 + 1us};
  const fixed_window limit{store, {.name = "x", .limit = 1, .window = 1s, .on_failure = fail::closed}, clock};
  CHECK(limit.check("anna").allowed);
  for (int i = 0; i < 100; ++i) {
    const decision d = limit.check("anna");
    CHECK_FALSE(d.allowed);
    CHECK(retry_after(d) == "1");
    clock.advance(1s);
    CHECK(limit.check("anna").allowed);
  }
}

TEST_CASE("a wait of 100 ms is told as 1 s, and one that cannot help is not told") {
  memory store;
  const manual_clock clock{w0};
  const token_bucket limit{
      store, {.name = "x", .capacity = 1, .refill = 10, .per = 1s, .on_failure = fail::closed}, clock};
  CHECK(limit.check("anna").allowed);
  CHECK(retry_after(limit.check("anna")) == "1");
  CHECK(retry_after(limit.check("anna", {}, 2)) == "");
  CHECK(http::status(limit.check("anna", {}, 2)) == 429);
}

TEST_CASE("an unused quota, and one whose window has passed, is full and resets now") {
  memory store;
  manual_clock clock{w0};
  const fixed_window limit{store, {.name = "x", .limit = 5, .window = 60s, .on_failure = fail::closed}, clock};
  const header_list full{{"X-RateLimit-Limit", "5"},
                         {"X-RateLimit-Remaining", "5"},
                         {"X-RateLimit-Reset", "1700000040"},
                         {"RateLimit-Policy", "\"x\";q=5;w=60"},
                         {"RateLimit", "\"x\";r=5;t=0"}};
  CHECK(http::headers(limit.peek("anna")) == full);
  limit.check("anna", {}, 5);
  clock.advance(60s);
  header_list later = full;
  later[2].second = "1700000100";
  CHECK(http::headers(limit.peek("anna")) == later);
}

TEST_CASE("a budget above 32 bits") {
  memory store;
  const manual_clock clock{w0};
  const fixed_window limit{
      store, {.name = "x", .limit = 30'000'000'000, .window = 720h, .on_failure = fail::closed}, clock};
  const header_list h = http::headers(limit.check("anna", {}, 4'230'196'224), fields::x_ratelimit);
  CHECK(h[0].second == "30000000000");
  CHECK(h[1].second == "25769803776");
}

TEST_CASE("all_of: every policy, the binding limit's numbers, the names of those that refused") {
  memory store;
  const manual_clock clock{w0 + 10s};
  const fixed_window minute{store, {.name = "minute", .limit = 2, .window = 60s, .on_failure = fail::open}, clock};
  const fixed_window ten{store, {.name = "ten", .limit = 10, .window = 10s, .on_failure = fail::open}, clock};
  const all_of quota{ten, minute};
  quota.check("anna");
  const auto passed = quota.check("anna");
  CHECK(http::status(passed) == 200);
  CHECK(http::headers(passed) == header_list{{"X-RateLimit-Limit", "2"},
                                             {"X-RateLimit-Remaining", "0"},
                                             {"X-RateLimit-Reset", "1700000100"},
                                             {"RateLimit-Policy", "\"ten\";q=10;w=10, \"minute\";q=2;w=60"},
                                             {"RateLimit", "\"ten\";r=8;t=10, \"minute\";r=0;t=50"}});
  const auto refused = quota.check("anna");
  CHECK(http::status(refused) == 429);
  CHECK(http::headers(refused, fields::ratelimit | fields::retry_after) ==
        header_list{{"RateLimit-Policy", "\"ten\";q=10;w=10, \"minute\";q=2;w=60"},
                    {"RateLimit", "\"ten\";r=8;t=10, \"minute\";r=0;t=50"},
                    {"Retry-After", "50"}});
  CHECK(http::problem_json(refused) == R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
                                       R"("title":"Quota Exceeded","status":429,"violated-policies":["minute"]})");
  const auto bad = quota.check("");
  CHECK(http::status(bad) == 400);
  CHECK(http::headers(bad).empty());
}
