// Who shares a quota with whom, and the bytes that say so.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rows.hpp"

namespace {

using namespace recipes;
using ratelimit::scope;

// Counts nothing; remembers the keys it was asked for.
struct recorder {
  static constexpr ratelimit::source origin = ratelimit::source::memory;
  std::vector<std::string> keys{};

  ratelimit::outcome run(const ratelimit::request& what, const ratelimit::deadline&) {
    keys.emplace_back(what.key);
    return {.allowed = true};
  }
};

std::string key_of(scope by, std::string_view identity, std::string_view region, std::string name = "n",
                   std::string prefix = "ratelimit:") {
  recorder store;
  const ratelimit::fixed_window limiter{store,
                                        {.name = std::move(name),
                                         .limit = 1,
                                         .window = 1s,
                                         .on_failure = ratelimit::fail::closed,
                                         .by = by,
                                         .prefix = std::move(prefix)}};
  limiter.check(identity, region);
  return store.keys.at(0);
}

// Bytes that were somewhere taken for a format, an end, a command or a tag.
const std::vector<std::string> bytes{"%s%s%n",
                                     "100%",
                                     "%b",
                                     "a b",
                                     " a",
                                     "a\r\nSET hacked 1",
                                     std::string{"a\0b", 3},
                                     "a",
                                     std::string{"\xff\xfe\0", 3},
                                     "\xf0\x9f\x8c\x8d",
                                     "\xc3\xa9",
                                     "e\xcc\x81",
                                     "{",
                                     "}",
                                     "{}",
                                     "a:b",
                                     "\x7f",
                                     "A",
                                     "a%3Ab",
                                     std::string(512, 'x')};

template <class Backend>
void check_alone(Backend& b) {
  CHECK(b.keys() == bytes.size());
  if constexpr (Backend::origin == ratelimit::source::redis) CHECK(b.server.command({"EXISTS", "hacked"}).number == 0);
}

template <class Limiter>
void two_pass(const Limiter& limiter, std::string_view identity, std::string_view region) {
  for (const answer& want : {pass(1, 1, 60s, 60s), pass(2, 0, 60s, 60s), deny(2, 0, 60s, 60s, 60s)})
    CHECK(figures(limiter.check(identity, region)) == want);
}

}  // namespace

TEST_CASE("A key is prefix, algorithm, name, identity and region, as the scope says", "[recipes]") {
  CHECK(key_of(scope::identity_and_region, "client", "eu") == "ratelimit:window:n:{client}:eu");
  CHECK(key_of(scope::identity_and_region, "client", "") == "ratelimit:window:n:{client}:");
  CHECK(key_of(scope::identity, "client", "eu") == "ratelimit:window:n:{client}");
  CHECK(key_of(scope::region, "client", "eu") == "ratelimit:window:n:eu");
  CHECK(key_of(scope::everyone, "client", "eu") == "ratelimit:window:n");
  CHECK(key_of(scope::identity, "client", "", "discover", "v2/") == "v2/window:discover:{client}");
  CHECK(key_of(scope::identity, "client", "", "", "") == "window::{client}");

  struct {
    recorder store;
    manual_clock clock{w0};
  } b;
  with_each(b, 1, 1s, [](const auto& limiter, const char*) { limiter.check("client", "eu"); });
  CHECK(b.store.keys ==
        std::vector<std::string>{"ratelimit:log:recipe:{client}:eu", "ratelimit:counter:recipe:{client}:eu",
                                 "ratelimit:bucket:recipe:{client}:eu", "ratelimit:window:recipe:{client}:eu"});
}

TEST_CASE("Bytes that could end a part of the key are percent-encoded", "[recipes]") {
  const auto identity = [](std::string_view bytes_given) { return key_of(scope::identity, bytes_given, ""); };
  CHECK(identity("a:b") == "ratelimit:window:n:{a%3Ab}");
  CHECK(identity("a%3Ab") == "ratelimit:window:n:{a%253Ab}");
  CHECK(identity("}{") == "ratelimit:window:n:{%7D%7B}");
  CHECK(identity(" \t\r\n") == "ratelimit:window:n:{%20%09%0D%0A}");
  CHECK(identity({"a\0b\x7f", 4}) == "ratelimit:window:n:{a%00b%7F}");
  CHECK(identity("\xc3\xa9\xff") == "ratelimit:window:n:{\xc3\xa9\xff}");
  CHECK(identity("a/b?c=d&e+f@g") == "ratelimit:window:n:{a/b?c=d&e+f@g}");
  CHECK(key_of(scope::region, "", "eu:{1} %") == "ratelimit:window:n:eu%3A%7B1%7D%20%25");
  CHECK(key_of(scope::everyone, "", "", "per minute: {all}") == "ratelimit:window:per%20minute%3A%20%7Ball%7D");
  // The longest of everything still is one key.
  const std::string brace(512, '{');
  const std::string key = key_of(scope::identity_and_region, brace, brace, brace, std::string(512, 'p'));
  CHECK(key.size() == 512 + std::string_view{"window:"}.size() + 3 * 3 * 512 + std::string_view{":{}:"}.size());
}

// All names, identities and regions of up to three bytes out of those that the key's own form uses.
TEST_CASE("No two different calls share a key", "[recipes]") {
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; parts[i].size() < 2; ++i)
    for (const char c : {':', '{', '}', '%', '\0', 'a', '3', 'A'}) parts.push_back(parts[i] + c);
  std::set<std::string> keys;
  std::size_t calls = 0;
  const auto see = [&](scope by, const std::string& name, const std::string& identity, const std::string& region) {
    ++calls;
    keys.insert(key_of(by, identity, region, name));
  };
  for (const auto& one : parts) {
    see(scope::everyone, one, "", "");
    for (const auto& other : parts) {
      see(scope::region, one, "", other);
      if (other.empty()) continue;
      see(scope::identity, one, other, "");
      for (const std::string name : {"", ":", "{", "a"}) see(scope::identity_and_region, name, other, one);
    }
  }
  CHECK(keys.size() == calls);
  CHECK(calls > 30'000);
}

TEMPLATE_TEST_CASE("Any bytes are an identity, and each its own", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto limiter = fixed_window(b, 2, 60s);
  for (const auto& identity : bytes) two_pass(limiter, identity, "eu");
  check_alone(b);
}

TEMPLATE_TEST_CASE("Any bytes are a region, and each its own", "[recipes]", on_memory, on_redis) {
  TestType b;
  const auto limiter = fixed_window(b, 2, 60s);
  for (const auto& region : bytes) two_pass(limiter, "client", region);
  check_alone(b);
}

TEMPLATE_TEST_CASE("Any bytes are a name, and each its own", "[recipes]", on_memory, on_redis) {
  TestType b;
  for (const auto& name : bytes) two_pass(fixed_window(b, 2, 60s, name), "client", "eu");
  check_alone(b);
}

// All but braces, which would move the hash tag.
TEMPLATE_TEST_CASE("Any bytes but braces are a prefix, and each its own", "[recipes]", on_memory, on_redis) {
  TestType b;
  std::size_t prefixes = 0;
  for (const auto& prefix : bytes) {
    if (prefix.find_first_of("{}") != std::string::npos) continue;
    ++prefixes;
    two_pass(ratelimit::fixed_window{b.store,
                                     {.name = "recipe",
                                      .limit = 2,
                                      .window = 60s,
                                      .on_failure = ratelimit::fail::closed,
                                      .deadline = patience,
                                      .prefix = prefix},
                                     b.clock},
             "client", "eu");
  }
  CHECK(b.keys() == prefixes);
  if constexpr (TestType::origin == ratelimit::source::redis) CHECK(b.server.command({"EXISTS", "hacked"}).number == 0);
}

TEMPLATE_TEST_CASE("Two limits never share a counter", "[recipes]", on_memory, on_redis) {
  TestType b;
  b.clock.set(midnight);
  const auto minute = fixed_window(b, 3, 60s, "minute");
  const auto day = fixed_window(b, 30, 24h, "day");
  follow(b, minute, {{0s, take(), pass(1, 2, 60s, 60s)}}, midnight);
  follow(b, day, {{0s, take(), pass(1, 29, 24h, 24h)}}, midnight);
  for (int i = 0; i < 2; ++i) CHECK((minute.check("client", "eu").allowed && day.check("client", "eu").allowed));
  follow(b, minute, {{0s, peek(0), deny(3, 0, 60s, 60s, 60s)}, {0s, take(), deny(3, 0, 60s, 60s, 60s)}}, midnight);
  follow(b, day, {{0s, peek(0), pass(3, 27, 24h, 24h)}}, midnight);
}

// Four algorithms with one name and one identity, side by side and each as if alone.
TEMPLATE_TEST_CASE("Algorithms side by side do not meet", "[recipes]", on_memory, on_redis) {
  const auto play = [](TestType& b, const auto&... limiters) {
    std::vector<answer> seen;
    for (int i = 0; i < 100; ++i) {
      b.clock.set(w0 + i * 700ms);
      (seen.push_back(figures(limiters.check("client", "eu", 1 + i % 3))), ...);
    }
    return seen;
  };
  TestType together, first, second, third, fourth;
  const auto all = play(together, sliding_log(together, 20, 60s), sliding_counter(together, 20, 60s),
                        token_bucket(together, 20, 20, 60s), fixed_window(together, 20, 60s));
  CHECK(together.keys() == 4);
  if constexpr (TestType::origin == ratelimit::source::redis) empty_server();
  const auto log = play(first, sliding_log(first, 20, 60s));
  const auto counter = play(second, sliding_counter(second, 20, 60s));
  const auto bucket = play(third, token_bucket(third, 20, 20, 60s));
  const auto window = play(fourth, fixed_window(fourth, 20, 60s));
  for (std::size_t i = 0; i < 100; ++i) {
    INFO("call " << i);
    CHECK(all[4 * i] == log[i]);
    CHECK(all[4 * i + 1] == counter[i]);
    CHECK(all[4 * i + 2] == bucket[i]);
    CHECK(all[4 * i + 3] == window[i]);
  }
}

TEMPLATE_TEST_CASE("A scope says who shares a quota", "[recipes]", on_memory, on_redis) {
  struct expectation {
    scope by;
    bool other_region;    // shares with the same client elsewhere
    bool other_identity;  // shares with another client in the same region
    bool both;
  };
  for (const expectation e :
       {expectation{scope::identity_and_region, false, false, false}, expectation{scope::identity, true, false, false},
        expectation{scope::region, false, true, false}, expectation{scope::everyone, true, true, true}}) {
    INFO("scope " << static_cast<int>(e.by));
    TestType b;
    const ratelimit::sliding_log limiter{b.store,
                                         {.name = "recipe",
                                          .limit = 1,
                                          .window = 60s,
                                          .on_failure = ratelimit::fail::closed,
                                          .by = e.by,
                                          .deadline = patience},
                                         b.clock};
    CHECK(limiter.check("alice", "eu").allowed);
    CHECK_FALSE(limiter.check("alice", "eu").allowed);
    CHECK(limiter.peek("alice", "us").allowed == !e.other_region);
    CHECK(limiter.peek("bob", "eu").allowed == !e.other_identity);
    CHECK(limiter.peek("bob", "us").allowed == !e.both);
  }
}
