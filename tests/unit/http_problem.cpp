// Status codes and problem bodies, byte for byte.
#include <string>
#include <vector>

#include "catch.hpp"

#include <ratelimit/error.hpp>
#include <ratelimit/http/problem.hpp>

using namespace ratelimit;

namespace {

decision made(bool allowed, source from, std::string_view name = "login") {
  decision d;
  d.allowed = allowed;
  d.from = from;
  d.limit_name = name;
  d.limit = 5;
  return d;
}

decision invalid(errc why) {
  decision d = made(false, source::invalid);
  d.error = why;
  return d;
}

const std::string over = R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
                         R"("title":"Quota Exceeded","status":429,"violated-policies":)";
const std::string reduced = R"({"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",)"
                            R"("title":"Temporary Reduced Capacity","status":503,"violated-policies":[]})";

}  // namespace

TEST_CASE("a refusal is 429 and names its policy") {
  for (const source from : {source::redis, source::memory, source::deny_cache, source::local}) {
    CHECK(http::status(made(false, from)) == 429);
    CHECK(http::problem_json(made(false, from)) == over + R"(["login"]})");
  }
}

TEST_CASE("what may pass is 200 and has no body") {
  decision shadow = made(true, source::redis);
  shadow.would_deny = true;
  for (const decision& d : {made(true, source::redis), made(true, source::failed_open), shadow}) {
    CHECK(http::status(d) == 200);
    CHECK(http::problem_json(d) == "");
  }
  CHECK(http::status(std::vector<decision>{}) == 200);
  CHECK(http::problem_json(std::vector<decision>{}) == "");
}

TEST_CASE("failed closed is 503, and no quota is said to be exceeded") {
  CHECK(http::status(made(false, source::failed_closed)) == 503);
  CHECK(http::problem_json(made(false, source::failed_closed)) == reduced);
}

TEST_CASE("a malformed call is 400 and says what is wrong") {
  CHECK(http::status(invalid(errc::invalid_region)) == 400);
  CHECK(http::problem_json(invalid(errc::invalid_region)) ==
        R"({"type":"about:blank","title":"Bad Request","status":400,)"
        R"("detail":"invalid region: longer than 512 bytes"})");
  CHECK(http::problem_json(invalid(errc::invalid_cost)) ==
        R"({"type":"about:blank","title":"Bad Request","status":400,"detail":"invalid cost: negative"})");
}

TEST_CASE("several limits: the names of those that refused, in order") {
  const std::vector<decision> d{made(false, source::redis, "minute"), made(true, source::redis, "hour"),
                                made(false, source::memory, "day")};
  CHECK(http::status(d) == 429);
  CHECK(http::problem_json(d) == over + R"(["minute","day"]})");
}

TEST_CASE("several limits: 400 before 429 before 503 before 200") {
  const decision pass = made(true, source::redis), deny = made(false, source::redis, "minute"),
                 closed = made(false, source::failed_closed), bad = invalid(errc::invalid_identity);
  CHECK(http::status(std::vector{pass, closed, deny, bad}) == 400);
  CHECK(http::problem_json(std::vector{pass, closed, deny, bad}) ==
        R"({"type":"about:blank","title":"Bad Request","status":400,)"
        R"("detail":"invalid identity: empty, or longer than 512 bytes"})");
  CHECK(http::status(std::vector{pass, closed, deny}) == 429);
  CHECK(http::problem_json(std::vector{pass, closed, deny}) == over + R"(["minute"]})");
  CHECK(http::status(std::vector{pass, closed}) == 503);
  CHECK(http::problem_json(std::vector{pass, closed}) == reduced);
  CHECK(http::status(std::vector{pass, pass}) == 200);
}

TEST_CASE("any name is a valid JSON string") {
  const auto names = [](std::string_view name) {
    const std::string body = http::problem_json(made(false, source::redis, name));
    REQUIRE(body.substr(0, over.size()) == over);
    return body.substr(over.size());
  };
  CHECK(names("") == R"([""]})");
  CHECK(names(R"(a"b\c/d)") == R"(["a\"b\\c/d"]})");
  CHECK(names(std::string_view{"\0\t\r\n\x1F\x20\x7F", 7}) == "[\"\\u0000\\u0009\\u000d\\u000a\\u001f \x7F\"]}");
}

TEST_CASE("well-formed UTF-8 stays, every other byte is replaced") {
  const std::string bad = "\xEF\xBF\xBD";
  const auto text = [](std::string_view bytes) { return http::detail::json_string(bytes); };
  // The first and last of each length, and both sides of the surrogates.
  for (const std::string good : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                                 "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(text(good) == '"' + good + '"');
    CHECK(text(good + "z") == '"' + good + "z\"");
  }
  CHECK(text("\x80") == '"' + bad + '"');
  CHECK(text("\xC3") == '"' + bad + '"');            // cut short
  CHECK(text("\xC3z") == '"' + bad + "z\"");         // cut short by another character
  CHECK(text("\xC3\"") == '"' + bad + "\\\"\"");     // which may not be swallowed
  CHECK(text("\xE2\x82") == '"' + bad + bad + '"');  // cut short after two bytes
  CHECK(text("\xC0\xAF") == '"' + bad + bad + '"');  // longer than needed
  CHECK(text("\xC1\xBF") == '"' + bad + bad + '"');
  CHECK(text("\xE0\x9F\xBF") == '"' + bad + bad + bad + '"');
  CHECK(text("\xF0\x8F\xBF\xBF") == '"' + bad + bad + bad + bad + '"');
  CHECK(text("\xED\xA0\x80") == '"' + bad + bad + bad + '"');            // a surrogate
  CHECK(text("\xF4\x90\x80\x80") == '"' + bad + bad + bad + bad + '"');  // above U+10FFFF
  CHECK(text("\xF5\x80\x80\x80") == '"' + bad + bad + bad + bad + '"');
  CHECK(text("\xFF") == '"' + bad + '"');
}
