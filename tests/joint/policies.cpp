// Policies of any limiter or all_of, and the table of routes that chooses one.
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/http/headers.hpp>
#include <ratelimit/http/problem.hpp>
#include <ratelimit/http/status.hpp>
#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "support/allocations.hpp"

using namespace joint;

namespace {

// A map of patterns whose policies are told apart by their limit's name, which is the pattern; the default's is "-".
class named_routes {
 public:
  explicit named_routes(const std::vector<std::string_view>& patterns)
      : map_{routes(patterns), window_of(b_, "-", 1, 1min)} {}

  std::string_view operator()(std::string_view method, std::string_view target) const {
    return map_.find(method, target).peek("somebody", "eu").limit_name;
  }
  const policy_map& map() const { return map_; }

 private:
  std::vector<policy_map::route> routes(const std::vector<std::string_view>& patterns) {
    std::vector<policy_map::route> made;
    for (const std::string_view pattern : patterns)
      made.push_back({pattern, window_of(b_, std::string{pattern}, 1, 1min)});
    return made;
  }

  on_memory b_;
  policy_map map_;
};

std::string refusal(const std::vector<std::string_view>& patterns) {
  try {
    const named_routes made{patterns};
  } catch (const std::invalid_argument& why) {
    return why.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a path, a tree of paths, and the rest") {
  const named_routes at{{"/api/v1/discover", "/api/v1/*", "/healthz"}};
  CHECK(at("GET", "/api/v1/discover") == "/api/v1/discover");
  CHECK(at("POST", "/api/v1/discover") == "/api/v1/discover");
  CHECK(at("", "/api/v1/discover") == "/api/v1/discover");
  CHECK(at("GET", "/api/v1/discover/x") == "/api/v1/*");
  CHECK(at("GET", "/api/v1/discovery") == "/api/v1/*");
  CHECK(at("GET", "/api/v1/a/b/c") == "/api/v1/*");
  CHECK(at("GET", "/api/v1") == "/api/v1/*");
  CHECK(at("GET", "/api/v10") == "-");
  CHECK(at("GET", "/api/v10/discover") == "-");
  CHECK(at("GET", "/api") == "-");
  CHECK(at("GET", "/") == "-");
  CHECK(at("GET", "/API/v1/discover") == "-");
  CHECK(at("GET", "/healthz") == "/healthz");
  CHECK(at("GET", "/healthz/x") == "-");
}

TEST_CASE("what is exact before a tree, the longest tree first, the method's own before any method's") {
  const named_routes at{{"/*", "/a/*", "/a/b/*", "/a/b", "GET /a/*", "GET /a/b/c/*", "POST /a/b/c", "PUT /a/b", "/x/*",
                         "GET /*", "DELETE /x"}};
  CHECK(at("GET", "/") == "GET /*");
  CHECK(at("PUT", "/") == "/*");
  CHECK(at("GET", "/zzz") == "GET /*");
  CHECK(at("GET", "/a") == "GET /a/*");
  CHECK(at("PUT", "/a") == "/a/*");
  CHECK(at("GET", "/a/b") == "/a/b");  // exact, though a tree names the method
  CHECK(at("PUT", "/a/b") == "PUT /a/b");
  CHECK(at("GET", "/a/b/x") == "/a/b/*");  // longer, though a shorter one names the method
  CHECK(at("GET", "/a/b/c") == "GET /a/b/c/*");
  CHECK(at("GET", "/a/b/c/d") == "GET /a/b/c/*");
  CHECK(at("PUT", "/a/b/c/d") == "/a/b/*");
  CHECK(at("POST", "/a/b/c") == "POST /a/b/c");
  CHECK(at("PATCH", "/a/b/c") == "/a/b/*");
  CHECK(at("DELETE", "/x") == "DELETE /x");
  CHECK(at("GET", "/x") == "/x/*");
  CHECK(at("get", "/a") == "/a/*");  // no method is called get
  CHECK(at("", "/a") == "/a/*");
}

TEST_CASE("a slash at the end, a query and a fragment say nothing") {
  const named_routes at{{"/a/", "/b", "/t/*", "POST /login/", "/"}};
  for (const std::string_view target : {"/a", "/a/", "/a//", "/a?b", "/a/?b=/c/", "/a?", "/a#x", "/a/#?x"}) {
    CAPTURE(target);
    CHECK(at("GET", target) == "/a/");
  }
  CHECK(at("GET", "/b/") == "/b");
  CHECK(at("GET", "/b?x=/t/y") == "/b");
  CHECK(at("GET", "/t?x") == "/t/*");
  CHECK(at("GET", "/t/x?/a") == "/t/*");
  CHECK(at("POST", "/login?next=/a") == "POST /login/");
  CHECK(at("GET", "/login") == "-");
  for (const std::string_view target : {"/", "//", "", "?x", "/?x", "/#"}) {
    CAPTURE(target);
    CHECK(at("GET", target) == "/");
  }
}

TEST_CASE("what is no path has no pattern, whatever its bytes") {
  const named_routes at{{"/*", "/a"}};
  for (const std::string_view target : {"*", "a", "a/", "http://example.com/a", "\\a", " /a"}) {
    CAPTURE(target);
    CHECK(at("OPTIONS", target) == "-");
  }
  CHECK(at("GET", std::string_view{"/a\0/b", 5}) == "/*");
  CHECK(at("GET", "/a*") == "/*");
  CHECK(at("GET", "/*") == "/*");
  CHECK(at("GET", std::string(100'000, '/')) == "/*");
  CHECK(at("GET", std::string(100'000, '/') + "a") == "/*");
  CHECK(at("GET /a", "/a") == "/a");
  const named_routes none{{}};
  CHECK(none("GET", "/a") == "-");
  CHECK(none("GET", "") == "-");
}

TEST_CASE("a pattern that is none, or is given twice, is refused by its name") {
  const auto refused = [](std::string_view pattern, std::string_view why) {
    return "ratelimit: policy_map: \"" + std::string{pattern} + "\" " + std::string{why};
  };
  const std::string_view no_path = "has no path that begins with /";
  const std::string_view no_method = "does not begin with a method in upper case, one space and a path";
  const std::string_view no_such_byte = "holds what no path does, or a * that is not the last segment";
  for (const std::string_view pattern : {"", "a", "*", "GET ", "GET a", "GET *", "GET  /a", "http://example.com/"})
    CHECK(refusal({pattern}) == refused(pattern, no_path));
  for (const std::string_view pattern : {"get /a", " /a", "GET,POST /a", "/a b"})
    CHECK(refusal({pattern}) == refused(pattern, no_method));
  for (const std::string_view pattern : {"/a*", "/*/b", "/a/**", "/a?b", "/a#b", "/a\tb", "GET /a /b", "/a\x7f"})
    CHECK(refusal({pattern}) == refused(pattern, no_such_byte));

  CHECK(refusal({"/a", "/b", "/a"}) == refused("/a", "is given twice"));
  CHECK(refusal({"/a", "/a/"}) == refused("/a/", "is given twice"));
  CHECK(refusal({"/a/*", "/a//*"}) == refused("/a//*", "is given twice"));
  CHECK(refusal({"GET /a", "GET /a/"}) == refused("GET /a/", "is given twice"));
  CHECK(refusal({"/a", "GET /a", "POST /a", "/a/*", "GET /a/*", "/", "/*", "M-SEARCH /a"}) == "taken");
  CHECK(refusal({"/\xc3\xa9", "/%7Ea", "/a:b", "/a/*"}) == "taken");
}

TEST_CASE("the order in which patterns are given says nothing") {
  std::vector<std::string_view> patterns{"/*", "/a/*", "/a", "GET /a", "GET /*"};
  for (int i = 0; i < 5; ++i) {
    std::rotate(patterns.begin(), patterns.begin() + 1, patterns.end());
    const named_routes at{patterns};
    CHECK(at("GET", "/a") == "GET /a");
    CHECK(at("PUT", "/a") == "/a");
    CHECK(at("PUT", "/a/b") == "/a/*");
    CHECK(at("GET", "/b") == "GET /*");
    CHECK(at("PUT", "/b") == "/*");
  }
}

TEST_CASE("finding a policy allocates nothing") {
  const named_routes at{{"/api/v1/discover", "/api/v1/*", "POST /login", "/*"}};
  const std::string deep = std::string(5000, 'x') + "?" + std::string(5000, 'y');
  const std::string long_path = "/api/v1/" + deep;
  const std::vector<std::pair<std::string_view, std::string_view>> requests{{"GET", "/api/v1/discover"},
                                                                            {"GET", "/api/v1/discover/?a=b"},
                                                                            {"POST", "/login"},
                                                                            {"PUT", "/login"},
                                                                            {"GET", long_path},
                                                                            {"GET", deep},
                                                                            {"", ""},
                                                                            {"OPTIONS", "*"}};
  std::vector<const policy*> found(requests.size());
  const std::size_t before = support::allocations_here();
  for (std::size_t i = 0; i < requests.size(); ++i) found[i] = &at.map().find(requests[i].first, requests[i].second);
  CHECK(support::allocations_here() == before);
  std::vector<std::string_view> names;
  for (const policy* one : found) names.push_back(one->peek("somebody", "eu").limit_name);
  CHECK(names == std::vector<std::string_view>{"/api/v1/discover", "/api/v1/discover", "POST /login", "/*", "/api/v1/*",
                                               "-", "/*", "-"});
}

TEST_CASE("a policy of a limiter answers as the limiter does") {
  on_memory b;
  const auto limit = window_of(b, "minute", 2, 1min);
  const policy held = limit;
  const policy copy = held;
  CHECK(held.limited());
  const policy_decision first = held.check("client", "eu");
  CHECK(first.allowed);
  CHECK(first.from == source::memory);
  CHECK(first.limit_name == "minute");
  CHECK(first.used == 1);
  CHECK(first.remaining == 1);
  REQUIRE(first.parts.size() == 1);
  CHECK(first.parts[0].used == 1);
  CHECK(first.parts[0].limit_name == "minute");
  CHECK(copy.peek("client", "eu").used == 1);
  CHECK(copy.check(call{.identity = "client", .region = "eu", .limit = 1}).allowed == false);
  CHECK(copy.check("client", "eu").remaining == 0);
  const policy_decision denied = held.check("client", "eu");
  CHECK_FALSE(denied.allowed);
  CHECK((denied.retry_after == 1min));
  CHECK(held.refund("client", "eu", 1).used == 1);
  CHECK(held.refund("client", "eu", 1, w0 - 1min).used == 1);  // of a window gone by
  CHECK(held.peek(call{.identity = "client", .region = "eu"}).used == 1);
  CHECK(limit.peek("client", "eu").used == 1);
  CHECK_FALSE(held.reset("client", "eu"));
  CHECK(limit.peek("client", "eu").used == 0);
  CHECK(held.check("", "eu").error == errc::invalid_identity);
  CHECK(held.reset("", "eu") == errc::invalid_identity);
}

TEST_CASE("a policy of an all_of has its parts, and headers of all of them") {
  on_memory b;
  const policy held = all_of{window_of(b, "minute", 2, 1min), window_of(b, "day", 30, 24h)};
  CHECK(held.check("client", "eu").parts.size() == 2);
  const policy_decision second = held.check("client", "eu");
  CHECK(second.limit_name == "minute");
  CHECK(second.parts[0].remaining == 0);
  CHECK(second.parts[1].remaining == 28);
  const policy_decision denied = held.check("client", "eu");
  CHECK_FALSE(denied.allowed);
  CHECK(denied.parts[0].allowed == false);
  CHECK(denied.parts[1].allowed == true);
  CHECK(denied.parts[1].used == 2);
  using http::header_list;
  CHECK(http::headers(denied) == header_list{{"X-RateLimit-Limit", "2"},
                                             {"X-RateLimit-Remaining", "0"},
                                             {"X-RateLimit-Reset", "1700000100"},
                                             {"RateLimit-Policy", R"("minute";q=2;w=60, "day";q=30;w=86400)"},
                                             {"RateLimit", R"("minute";r=0;t=60, "day";r=28;t=6360)"},
                                             {"Retry-After", "60"}});
  CHECK(http::status(denied) == 429);
  CHECK(http::problem_json(denied).find(R"("violated-policies":["minute"])") != std::string::npos);
  CHECK(held.refund("client", "eu", 1).parts[1].used == 1);
  CHECK_FALSE(held.reset("client", "eu"));
  CHECK(held.peek("client", "eu").parts[1].used == 0);

  // An all_of itself gives the same headers as its policy.
  const all_of same{window_of(b, "minute", 2, 1min), window_of(b, "day", 30, 24h)};
  CHECK(http::headers(same.peek("client", "eu")) == http::headers(held.peek("client", "eu")));
  CHECK(http::headers(same.peek("client", "eu"))[3].second == R"("minute";q=2;w=60, "day";q=30;w=86400)");
}

TEST_CASE("no limit: everything passes, and nothing is told of a quota") {
  const policy none;
  CHECK_FALSE(none.limited());
  CHECK_FALSE(no_limit.limited());
  for (const policy_decision& d :
       {none.check("client"), none.check(call{.identity = "", .cost = -1}), none.peek("client"),
        none.peek(call{.identity = "client"}), none.refund("client", {}, 5), none.refund("client", {}, 5, w0)}) {
    CHECK(d.allowed);
    CHECK(d.from == source::unlimited);
    CHECK(to_string(d.from) == "unlimited");
    CHECK(d.error == std::error_code{});
    CHECK_FALSE(d.counted());
    CHECK(d.limit_name.empty());
    CHECK(d.limit == 0);
    CHECK(d.retry_after == std::nullopt);
    CHECK(d.parts.empty());
    CHECK(http::headers(d).empty());
    CHECK(http::headers(static_cast<const decision&>(d)).empty());
    CHECK(http::status(d) == 200);
    CHECK(http::problem_json(d).empty());
  }
  CHECK(none.reset("client") == std::error_code{});
}

TEST_CASE("the routes of an API, as its documentation shows them") {
  on_memory b;
  const auto login = window_of(b, "login", 1, 1min);
  const all_of quota{window_of(b, "minute", 2, 1min), log_of(b, "day", 3, 24h)};
  const policy_map routes{{{"POST /login", login}, {"/api/*", quota}, {"/healthz", no_limit}},
                          bucket_of(b, "other", 5, 1min)};
  CHECK(routes.find("POST", "/login").check("client", "eu").limit_name == "login");
  CHECK(routes.find("GET", "/login").check("client", "eu").limit_name == "other");
  CHECK(routes.find("GET", "/api/v1/discover").check("client", "eu").parts.size() == 2);
  CHECK(routes.find("GET", "/healthz").check("client", "eu").from == source::unlimited);
  CHECK_FALSE(policy_map{{{"/a", login}}, no_limit}.find("GET", "/b").limited());
  CHECK(policy_map{{{"/a", login}}, no_limit}.find("GET", "/a").limited());
}
