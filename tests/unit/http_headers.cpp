// Header values: digits, rounding, structured field syntax, and which limit speaks for several.
#include <locale>
#include <string>
#include <vector>

#include "catch.hpp"

#include <ratelimit/http/headers.hpp>

using namespace ratelimit;
using namespace std::chrono_literals;
using http::fields;
using http::header_list;

namespace {

constexpr time_point w0{1'700'000'040s};

decision allowed(std::string_view name, std::int64_t limit, std::int64_t remaining, std::chrono::microseconds reset,
                 std::chrono::microseconds window) {
  decision d;
  d.allowed = true;
  d.from = source::redis;
  d.limit_name = name;
  d.limit = limit;
  d.used = limit - remaining;
  d.remaining = remaining;
  d.reset_after = reset;
  d.full_after = reset;
  d.at = w0;
  d.window = window;
  return d;
}

decision denied(std::string_view name, std::int64_t limit, std::optional<std::chrono::microseconds> retry,
                std::chrono::microseconds window) {
  decision d = allowed(name, limit, 0, retry.value_or(window), window);
  d.allowed = false;
  d.retry_after = retry;
  return d;
}

decision uncounted(source from, bool passes) {
  decision d = allowed("login", 5, 0, 0us, 60s);
  d.allowed = passes;
  d.from = from;
  d.error = std::make_error_code(std::errc::timed_out);
  return d;
}

header_list retry_after(std::chrono::microseconds wait) {
  return http::headers(denied("x", 1, wait, 60s), fields::retry_after);
}

struct grouping final : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("five allowed calls and a refusal, every value plain digits, 0 among them") {
  for (std::int64_t left = 4; left >= 0; --left) {
    CHECK(http::headers(allowed("discover", 5, left, 59'999'999us, 60s)) ==
          header_list{{"X-RateLimit-Limit", "5"},
                      {"X-RateLimit-Remaining", std::to_string(left)},
                      {"X-RateLimit-Reset", "1700000100"},
                      {"RateLimit-Policy", "\"discover\";q=5;w=60"},
                      {"RateLimit", "\"discover\";r=" + std::to_string(left) + ";t=60"}});
  }
  CHECK(http::headers(denied("discover", 5, 41'000'001us, 60s)) ==
        header_list{{"X-RateLimit-Limit", "5"},
                    {"X-RateLimit-Remaining", "0"},
                    {"X-RateLimit-Reset", "1700000082"},
                    {"RateLimit-Policy", "\"discover\";q=5;w=60"},
                    {"RateLimit", "\"discover\";r=0;t=42"},
                    {"Retry-After", "42"}});
}

TEST_CASE("a full quota resets now") {
  CHECK(http::headers(allowed("x", 5, 5, 0us, 60s)) == header_list{{"X-RateLimit-Limit", "5"},
                                                                   {"X-RateLimit-Remaining", "5"},
                                                                   {"X-RateLimit-Reset", "1700000040"},
                                                                   {"RateLimit-Policy", "\"x\";q=5;w=60"},
                                                                   {"RateLimit", "\"x\";r=5;t=0"}});
}

TEST_CASE("Retry-After is whole seconds, rounded up, at least 1") {
  CHECK(retry_after(1us) == header_list{{"Retry-After", "1"}});
  CHECK(retry_after(100ms) == header_list{{"Retry-After", "1"}});
  CHECK(retry_after(1000ms) == header_list{{"Retry-After", "1"}});
  CHECK(retry_after(1001ms) == header_list{{"Retry-After", "2"}});
  CHECK(retry_after(1'000'001us) == header_list{{"Retry-After", "2"}});
  CHECK(retry_after(59'999ms) == header_list{{"Retry-After", "60"}});
  CHECK(retry_after(0us) == header_list{{"Retry-After", "1"}});
  CHECK(retry_after(-1us) == header_list{{"Retry-After", "1"}});
}

TEST_CASE("no Retry-After where waiting cannot help, nor where the call passed") {
  CHECK(http::headers(denied("x", 1, std::nullopt, 60s), fields::retry_after).empty());
  CHECK(http::headers(allowed("x", 5, 4, 60s, 60s), fields::retry_after).empty());
  decision shadow = denied("x", 5, 7s, 60s);
  shadow.allowed = true;
  shadow.would_deny = true;
  CHECK(http::headers(shadow, fields::retry_after).empty());
}

TEST_CASE("the reset is the first whole second that is not too early") {
  decision d = allowed("x", 5, 4, 1us, 60s);
  CHECK(http::headers(d, fields::x_ratelimit)[2].second == "1700000041");
  d.at += 999'999us;
  CHECK(http::headers(d, fields::x_ratelimit)[2].second == "1700000041");
  d.at += 1us;
  CHECK(http::headers(d, fields::x_ratelimit)[2].second == "1700000042");
  d.at = time_point{-5s};
  CHECK(http::headers(d, fields::x_ratelimit)[2].second == "0");
}

TEST_CASE("the window is whole seconds, rounded up, or left out") {
  CHECK(http::headers(allowed("x", 5, 4, 1ms, 1500ms), fields::ratelimit) ==
        header_list{{"RateLimit-Policy", "\"x\";q=5;w=2"}, {"RateLimit", "\"x\";r=4;t=1"}});
  CHECK(http::headers(allowed("x", 5, 4, 1ms, 1ms), fields::ratelimit) ==
        header_list{{"RateLimit-Policy", "\"x\";q=5;w=1"}, {"RateLimit", "\"x\";r=4;t=1"}});
  CHECK(http::headers(allowed("x", 5, 4, 1ms, 0us), fields::ratelimit) ==
        header_list{{"RateLimit-Policy", "\"x\";q=5"}, {"RateLimit", "\"x\";r=4;t=1"}});
}

TEST_CASE("only the fields that were asked for") {
  const decision d = denied("x", 5, 3s, 60s);
  CHECK(http::headers(d, fields::x_ratelimit) ==
        header_list{{"X-RateLimit-Limit", "5"}, {"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1700000043"}});
  CHECK(http::headers(d, fields::ratelimit | fields::retry_after) ==
        header_list{{"RateLimit-Policy", "\"x\";q=5;w=60"}, {"RateLimit", "\"x\";r=0;t=3"}, {"Retry-After", "3"}});
  CHECK(http::headers(d, fields::x_ratelimit | fields::ratelimit | fields::retry_after) == http::headers(d));
}

TEST_CASE("limits above 32 bits are exact, digits ungrouped in every locale") {
  const std::locale before = std::locale::global(std::locale{std::locale::classic(), new grouping});
  const auto large = http::headers(allowed("x", 30'000'000'000, 25'769'803'776, 1s, 30 * 24h));
  const auto thousands = http::headers(allowed("x", 30'000, 29'999, 1s, 60s));
  std::locale::global(before);
  CHECK(large == header_list{{"X-RateLimit-Limit", "30000000000"},
                             {"X-RateLimit-Remaining", "25769803776"},
                             {"X-RateLimit-Reset", "1700000041"},
                             {"RateLimit-Policy", "\"x\";q=30000000000;w=2592000"},
                             {"RateLimit", "\"x\";r=25769803776;t=1"}});
  CHECK(thousands[0].second == "30000");
  CHECK(thousands[1].second == "29999");
  CHECK(thousands[3].second == "\"x\";q=30000;w=60");
}

TEST_CASE("a structured field's integers end at 15 digits") {
  const std::int64_t most = (std::int64_t{1} << 53) - 1;
  CHECK(http::headers(allowed("x", most, most - 1, 1s, 60s)) ==
        header_list{{"X-RateLimit-Limit", "9007199254740991"},
                    {"X-RateLimit-Remaining", "9007199254740990"},
                    {"X-RateLimit-Reset", "1700000041"},
                    {"RateLimit-Policy", "\"x\";q=999999999999999;w=60"},
                    {"RateLimit", "\"x\";r=999999999999999;t=1"}});
}

TEST_CASE("no name leaves its string") {
  const auto policy = [](std::string_view name) {
    return http::headers(allowed(name, 5, 4, 1s, 60s), fields::ratelimit)[0].second;
  };
  CHECK(policy("") == R"("";q=5;w=60)");
  CHECK(policy("api.v1/get items~") == R"("api.v1/get items~";q=5;w=60)");
  CHECK(policy(R"(a"b\c)") == R"("a\"b\\c";q=5;w=60)");
  CHECK(policy("a\r\nSet-Cookie: b") == R"("a%0D%0ASet-Cookie: b";q=5;w=60)");
  CHECK(policy("b\xC3\xBCro") == R"("b%C3%BCro";q=5;w=60)");
  CHECK(policy("b%C3%BCro") == R"("b%25C3%25BCro";q=5;w=60)");
  CHECK(policy(std::string_view{"\0\x1F\x7F\x80\xFF", 5}) == R"("%00%1F%7F%80%FF";q=5;w=60)");
}

TEST_CASE("what nobody counted is not told as a number") {
  const header_list configured{{"X-RateLimit-Limit", "5"}, {"RateLimit-Policy", "\"login\";q=5;w=60"}};
  CHECK(http::headers(uncounted(source::failed_open, true)) == configured);
  CHECK(http::headers(uncounted(source::failed_closed, false)) == configured);
  CHECK(http::headers(uncounted(source::invalid, false)).empty());
  CHECK(http::headers(std::span<const decision>{}).empty());
}

TEST_CASE("several limits that allow: both listed, the smaller share binds") {
  const std::vector<decision> d{allowed("minute", 100, 40, 12s, 60s), allowed("day", 5000, 1500, 3600s, 24h)};
  CHECK(http::headers(d) == header_list{{"X-RateLimit-Limit", "5000"},
                                        {"X-RateLimit-Remaining", "1500"},
                                        {"X-RateLimit-Reset", "1700003640"},
                                        {"RateLimit-Policy", "\"minute\";q=100;w=60, \"day\";q=5000;w=86400"},
                                        {"RateLimit", "\"minute\";r=40;t=12, \"day\";r=1500;t=3600"}});
}

TEST_CASE("equal shares: the first binds, and large limits are compared exactly") {
  const std::int64_t most = (std::int64_t{1} << 53) - 1;
  CHECK(http::headers(std::vector{allowed("a", 10, 5, 1s, 60s), allowed("b", 2, 1, 1s, 60s)})[0].second == "10");
  CHECK(http::headers(std::vector{allowed("a", most, most - 1, 1s, 60s), allowed("b", most, most - 2, 1s, 60s)})[1]
            .second == "9007199254740989");
}

TEST_CASE("several limits, some refuse: the longest wait binds") {
  const std::vector<decision> d{denied("second", 2, 900ms, 1s), allowed("hour", 50, 0, 9s, 1h),
                                denied("minute", 10, 8200ms, 60s)};
  CHECK(http::headers(d) ==
        header_list{{"X-RateLimit-Limit", "10"},
                    {"X-RateLimit-Remaining", "0"},
                    {"X-RateLimit-Reset", "1700000049"},
                    {"RateLimit-Policy", "\"second\";q=2;w=1, \"hour\";q=50;w=3600, \"minute\";q=10;w=60"},
                    {"RateLimit", "\"second\";r=0;t=1, \"hour\";r=0;t=9, \"minute\";r=0;t=9"},
                    {"Retry-After", "9"}});
}

TEST_CASE("a limit that can never let the call pass binds, and no wait is told") {
  const std::vector<decision> d{denied("minute", 10, 8s, 60s), denied("burst", 3, std::nullopt, 1s)};
  CHECK(http::headers(d) == header_list{{"X-RateLimit-Limit", "3"},
                                        {"X-RateLimit-Remaining", "0"},
                                        {"X-RateLimit-Reset", "1700000041"},
                                        {"RateLimit-Policy", "\"minute\";q=10;w=60, \"burst\";q=3;w=1"},
                                        {"RateLimit", "\"minute\";r=0;t=8, \"burst\";r=0;t=1"}});
}

TEST_CASE("several limits, one not counted: its policy stands, its numbers do not") {
  const std::vector<decision> open{uncounted(source::failed_open, true), allowed("day", 5000, 4999, 3600s, 24h)};
  CHECK(http::headers(open) == header_list{{"X-RateLimit-Limit", "5000"},
                                           {"X-RateLimit-Remaining", "4999"},
                                           {"X-RateLimit-Reset", "1700003640"},
                                           {"RateLimit-Policy", "\"login\";q=5;w=60, \"day\";q=5000;w=86400"},
                                           {"RateLimit", "\"day\";r=4999;t=3600"}});
  const std::vector<decision> closed{denied("day", 5000, 60s, 24h), uncounted(source::failed_closed, false)};
  CHECK(http::headers(closed) == header_list{{"X-RateLimit-Limit", "5000"},
                                             {"X-RateLimit-Remaining", "0"},
                                             {"X-RateLimit-Reset", "1700000100"},
                                             {"RateLimit-Policy", "\"day\";q=5000;w=86400, \"login\";q=5;w=60"},
                                             {"RateLimit", "\"day\";r=0;t=60"}});
}
