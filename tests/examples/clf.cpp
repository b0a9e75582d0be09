// Lines of access logs, well and badly formed.
#include <optional>
#include <string>
#include <string_view>

#include "catch.hpp"
#include "replay/clf.hpp"

namespace {

using ratelimit::time_point;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

// 17 May 2015, 10:05:03 UTC.
constexpr time_point then{1'431'857'103s};

// A line around a time.
std::optional<time_point> time_of(std::string_view text) {
  const std::string line = "192.0.2.1 - - [" + std::string{text} + R"(] "GET / HTTP/1.1" 200 1)";
  const auto parsed = replay::parse(line);
  return parsed ? std::optional{parsed->time} : std::nullopt;
}

// A line around a request.
std::optional<std::string> path_of(std::string_view request) {
  const std::string line = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"" + std::string{request} + "\" 200 1";
  const auto parsed = replay::parse(line);
  return parsed ? std::optional{std::string{parsed->path}} : std::nullopt;
}

void check_parsed(std::string_view line, std::string_view client, std::string_view path) {
  CAPTURE(line);
  const auto parsed = replay::parse(line);
  REQUIRE(parsed);
  CHECK(parsed->client == client);
  CHECK(parsed->path == path);
  CHECK((parsed->time == then));
}

}  // namespace

TEST_CASE("a line says who asked for what, and when", "[clf]") {
  check_parsed(R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a/b?c=d HTTP/1.1" 200 203023 "-" "curl")",
               "192.0.2.1", "/a/b");
  check_parsed(R"(2001:db8::1 - ada [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 304 -)", "2001:db8::1", "/");
  check_parsed(R"(host.example.com - - [17/May/2015:10:05:03 +0000] "POST /form HTTP/1.0" 500 0)", "host.example.com",
               "/form");
}

TEST_CASE("what follows the bytes is not looked at, nor is a line's carriage return", "[clf]") {
  const std::string line = R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5)";
  for (const std::string_view end : {""sv, "\r"sv, " \"half a referrer"sv, " \"-\" \"-\" 0.003 upstream\r"sv, " \0"sv})
    check_parsed(line + std::string{end}, "192.0.2.1", "/a");
}

TEST_CASE("a user's name may hold spaces, brackets and quotes", "[clf]") {
  for (const std::string_view user :
       {"ada b [c]", "[", "[17/May/2015:10:05:03]", "\"ada\"", " [99/May/2015:10:05:03 +0000]"})
    check_parsed("192.0.2.1 - " + std::string{user} + R"( [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5)",
                 "192.0.2.1", "/a");
}

TEST_CASE("a time counts in UTC, whatever its zone", "[clf]") {
  CHECK((time_of("17/May/2015:10:05:03 +0000") == then));
  CHECK((time_of("17/May/2015:10:05:03 -0000") == then));
  CHECK((time_of("17/May/2015:12:05:03 +0200") == then));
  CHECK((time_of("17/May/2015:03:05:03 -0700") == then));
  CHECK((time_of("17/May/2015:15:50:03 +0545") == then));
  CHECK((time_of("18/May/2015:00:05:03 +1400") == then));
  CHECK((time_of("16/May/2015:22:05:03 -1200") == then));
  CHECK((time_of("01/Jan/1970:00:00:00 +0000") == time_point{}));
  CHECK((time_of("01/Jan/1970:00:00:00 +0100") == time_point{-3600s}));
  CHECK((time_of("29/Feb/2024:23:59:59 +0000") == time_point{1'709'251'199s}));
  CHECK((time_of("31/Dec/2016:23:59:60 +0000") == time_point{1'483'228'800s}));  // a leap second
}

TEST_CASE("each month has its name", "[clf]") {
  // Days before it in a year that is none of the leap years.
  const std::pair<std::string_view, int> months[] = {{"Jan", 0},   {"Feb", 31},  {"Mar", 59},  {"Apr", 90},
                                                     {"May", 120}, {"Jun", 151}, {"Jul", 181}, {"Aug", 212},
                                                     {"Sep", 243}, {"Oct", 273}, {"Nov", 304}, {"Dec", 334}};
  for (const auto& [name, days] : months) {
    CAPTURE(name);
    CHECK((time_of("01/" + std::string{name} + "/1970:00:00:00 +0000") == time_point{24h * days}));
  }
}

TEST_CASE("a time that is none makes the line malformed", "[clf]") {
  for (const std::string_view text : {"",
                                      "-",
                                      "17/May/2015:10:05:03",
                                      "17/May/2015:10:05:03 +000",
                                      "17/May/2015:10:05:03 +00000",
                                      "17/may/2015:10:05:03 +0000",
                                      "17/Mai/2015:10:05:03 +0000",
                                      "17/05/2015:10:05:03 +0000",
                                      "17-May-2015:10:05:03 +0000",
                                      "00/May/2015:10:05:03 +0000",
                                      "32/May/2015:10:05:03 +0000",
                                      "31/Apr/2015:10:05:03 +0000",
                                      "29/Feb/2015:10:05:03 +0000",
                                      "17/May/2015:24:05:03 +0000",
                                      "17/May/2015:10:60:03 +0000",
                                      "17/May/2015:10:05:61 +0000",
                                      "17/May/2015:10:05:03 +0060",
                                      "17/May/2015:10:05:03 +2400",
                                      "17/May/2015:10:05:03 00000",
                                      "1a/May/2015:10:05:03 +0000",
                                      "17/May/20 5:10:05:03 +0000",
                                      "17/May/2015:-1:05:03 +0000",
                                      "17/May/2015:10:+5:03 +0000",
                                      "17/May/2015:10:05: 3 +0000",
                                      "17/May/2015:10:05:03 +0a00"}) {
    CAPTURE(text);
    CHECK_FALSE(time_of(text));
  }
}

TEST_CASE("a path ends at its query, and a request that has none has none", "[clf]") {
  CHECK(path_of("GET /a/b HTTP/1.1") == "/a/b");
  CHECK(path_of("GET /a?b HTTP/1.1") == "/a");
  CHECK(path_of("GET /a#b HTTP/1.1") == "/a");
  CHECK(path_of("GET /a") == "/a");
  CHECK(path_of(R"(GET /a\"b HTTP/1.1)") == R"(/a\"b)");
  CHECK(path_of(R"(GET /a\\)") == R"(/a\\)");
  CHECK(path_of("GET /%2e%2e/\xC3\xA4 HTTP/1.1") == "/%2e%2e/\xC3\xA4");
  CHECK(path_of("GET /a\0b HTTP/1.1"sv) == std::string{"/a\0b"sv});
  for (const std::string_view none : {"", "-", "GET", "OPTIONS * HTTP/1.1", "GET http://example.com/ HTTP/1.1",
                                      "GET  /two-spaces HTTP/1.1", R"(\x16\x03\x01)"}) {
    CAPTURE(none);
    CHECK(path_of(none) == "");
  }
}

TEST_CASE("a line that lacks a part, or holds another there, is malformed", "[clf]") {
  const std::string_view lines[] = {""sv,
                                    "\r"sv,
                                    " "sv,
                                    "192.0.2.1"sv,
                                    "192.0.2.1 - -"sv,
                                    "192.0.2.1 - - [17/May/2015:10:05:03 +0000]"sv,
                                    "192.0.2.1 - - [17/May/2015:10:05:03 +0000"sv,
                                    R"([17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1)"sv,
                                    R"( - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET / HTTP/1.1 200 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000]"GET / HTTP/1.1" 200 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1 200 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1\" 200 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1\)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1")"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 )"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 2000 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 2x0 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" - 1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 -1)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1k)"sv,
                                    R"(192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200  1)"sv,
                                    "192.0\0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1"sv,
                                    "192.0.2.1\t- - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1"sv,
                                    "\xEF\xBB\xBF"
                                    "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1"sv,
                                    "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\0"sv};
  for (const std::string_view line : lines) {
    CAPTURE(std::string{line});
    CHECK_FALSE(replay::parse(line));
  }
}

TEST_CASE("a client is a name of up to 255 bytes", "[clf]") {
  const std::string rest = R"( - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5)";
  const std::string longest(255, 'x');
  check_parsed(longest + rest, longest, "/a");
  CHECK_FALSE(replay::parse(longest + "x" + rest));
}
