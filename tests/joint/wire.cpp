// What goes over the wire: one command for a combination, one pipeline for a batch.
#include <set>
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "recipes/monitor.hpp"
#include "support/fake_server.hpp"

using namespace joint;

namespace {

template <class Backend>
auto three_limits(Backend& b) {
  return all_of{counter_of(b, "minute", 100, 1min), window_of(b, "day", 5000, 24h),
                log_of(b, "ceiling", 400, 1min, {.by = scope::identity})};
}

// The commands that clients sent, not those that scripts ran.
std::vector<recipes::seen_command> sent(recipes::monitor& monitor) {
  std::vector<recipes::seen_command> all = monitor.commands();
  std::erase_if(all, [](const recipes::seen_command& one) { return one.by_script; });
  return all;
}

std::vector<std::string> names(const std::vector<recipes::seen_command>& commands) {
  std::vector<std::string> all;
  for (const auto& one : commands) all.push_back(one.name());
  return all;
}

std::vector<std::string> times(std::size_t count, const std::string& word) {
  return std::vector(count, word);
}

template <class Decisions>
std::vector<std::int64_t> used(const Decisions& all) {
  std::vector<std::int64_t> counts;
  for (const auto& d : all) counts.push_back(d.used);
  return counts;
}

}  // namespace

TEST_CASE("three limits are one command with three keys", "[joint]") {
  on_redis b;
  const auto quota = three_limits(b);
  quota.check("client", "eu");  // the server may not know the script
  b.server.reset_statistics();
  recipes::monitor monitor{b.server};
  CHECK(quota.check("client", "eu").parts[2].used == 2);
  const auto seen = sent(monitor);
  REQUIRE(names(seen) == times(1, "EVALSHA"));
  CHECK(std::vector(seen[0].words.begin() + 1, seen[0].words.begin() + 6) ==
        std::vector<std::string>{std::string{detail::scripts::all_of.sha1}, "3", "ratelimit:counter:minute:{client}:eu",
                                 "ratelimit:window:day:{client}:eu", "ratelimit:log:ceiling:{client}"});
  CHECK(b.server.calls("evalsha") == 1);
  CHECK(b.server.calls("eval") == 0);
  CHECK(b.server.calls("time") == 0);  // the injected clock's time was sent
  monitor.commands();                  // the observer's own
  CHECK(quota.check({.identity = "client", .region = "eu", .request_id = "7"}).allowed);
  const auto with_id = sent(monitor);
  REQUIRE(names(with_id) == times(1, "EVALSHA"));
  CHECK(with_id[0].words[2] == "4");  // and the id's key
  quota.refund("client", "eu", 1);
  quota.peek("client", "eu");
  CHECK(names(sent(monitor)) == times(2, "EVALSHA"));
}

TEST_CASE("a batch is one pipeline, and an unknown script one more", "[joint]") {
  on_redis b;
  const auto limit = window_of(b, "day", 7, 24h);
  const std::vector<call> calls(10, call{.identity = "client", .region = "eu"});
  const std::vector<std::int64_t> counted{1, 2, 3, 4, 5, 6, 7, 7, 7, 7};
  b.server.command({"SCRIPT", "FLUSH"});
  recipes::monitor monitor{b.server};
  auto answers = limit.check_many(calls);
  CHECK(used(answers) == counted);
  for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i].allowed == (i < 7));
  CHECK(limit.peek("client", "eu").used == 7);
  std::vector<std::string> both = times(10, "EVALSHA");
  both.insert(both.end(), 10, "EVAL");
  both.push_back("EVALSHA");
  CHECK(names(sent(monitor)) == both);

  CHECK_FALSE(limit.reset("client", "eu"));
  monitor.commands();
  CHECK(used(limit.check_many(calls)) == counted);
  CHECK(names(sent(monitor)) == times(10, "EVALSHA"));
  CHECK(limit.check_many({}).empty());
  CHECK(sent(monitor).empty());
}

TEST_CASE("a batch of combinations is one pipeline, and an unknown script one more", "[joint]") {
  on_redis b;
  const auto quota = three_limits(b);
  const std::vector<call> calls(10, call{.identity = "client", .region = "eu"});
  b.server.command({"SCRIPT", "FLUSH"});
  recipes::monitor monitor{b.server};
  const auto answers = quota.check_many(calls);
  for (std::size_t i = 0; i < answers.size(); ++i)
    for (const decision& part : answers[i].parts) CHECK(part.used == static_cast<std::int64_t>(i) + 1);
  std::vector<std::string> both = times(10, "EVALSHA");
  both.insert(both.end(), 10, "EVAL");
  CHECK(names(sent(monitor)) == both);
  CHECK(used(quota.check_many(calls)).back() == 20);
  CHECK(names(sent(monitor)) == times(10, "EVALSHA"));
  CHECK(quota.check_many({}).empty());
  CHECK(sent(monitor).empty());
}

TEST_CASE("an unknown script in the middle of a batch: one command more, each answer in its place", "[joint]") {
  // The server forgets the script before the third of five.
  int evalsha = 0;
  support::fake_server server{[&](const support::words& words) -> support::bytes {
    if (words[0] == "EVALSHA" && ++evalsha == 3) return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    // allowed, start, and as many units as the cost says
    return "*3\r\n:1\r\n:60000000\r\n:" + words[8] + "\r\n";
  }};
  struct {
    ratelimit::redis store;
    manual_clock clock{w0};
  } b{ratelimit::redis{server.url()}};
  const auto limit = window_of(b, "day", 100, 24h);
  std::vector<call> calls;
  for (std::int64_t cost = 11; cost <= 15; ++cost) calls.push_back({.identity = "client", .cost = cost});
  const auto answers = limit.check_many(calls);
  CHECK(used(answers) == std::vector<std::int64_t>{11, 12, 13, 14, 15});
  for (const decision& d : answers) CHECK(d.from == source::redis);
  CHECK(server.commands() == support::words{"EVALSHA", "EVALSHA", "EVALSHA", "EVALSHA", "EVALSHA", "EVAL"});
  CHECK(server.heard().back()[8] == "13");
  CHECK(server.connections() == 1);
}

TEMPLATE_TEST_CASE("a batch keeps the order of its calls, malformed ones among them", "[joint]", on_memory, on_redis) {
  TestType b;
  const auto minute = window_of(b, "minute", 2, 24h);
  const all_of quota{minute, log_of(b, "region", 5, 24h, {.by = scope::region})};
  const std::vector<call> calls{
      {.identity = "a", .region = "eu"},
      {.identity = "", .region = "eu"},
      {.identity = "b", .region = "eu", .cost = 2},
      {.identity = "a", .region = "us"},
      {.identity = "b", .region = "eu"},             // over the minute's
      {.identity = "c", .region = "eu", .cost = 3},  // over the minute's for ever
      {.identity = "a", .region = "eu"},
      {.identity = "d", .region = "eu", .cost = 2},  // over the region's
      {.identity = "d", .region = "eu", .cost = 0},
      {.identity = "d", .region = "eu"},
      {.identity = "d", .region = "eu", .cost = -1},
  };
  const auto check = [](const auto& answers, const std::vector<bool>& allowed,
                        const std::vector<std::int64_t>& minutes) {
    REQUIRE(answers.size() == allowed.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CAPTURE(i);
      CHECK(answers[i].allowed == allowed[i]);
      CHECK((answers[i].from == source::invalid) == (i == 1 || i == 10));
      if constexpr (requires { answers[i].parts; }) {
        CHECK(answers[i].parts[0].used == minutes[i]);
      } else {
        CHECK(answers[i].used == minutes[i]);
      }
    }
  };
  const auto joint = quota.check_many(calls);
  check(joint, {true, false, true, true, false, false, true, false, true, true, false},
        {1, 0, 2, 1, 2, 0, 2, 0, 0, 1, 0});
  CHECK(joint[7].limit_name == "region");
  CHECK(joint[7].parts[0].allowed);
  CHECK(joint[9].parts[1].used == 5);
  for (const char* identity : {"a", "b", "d"}) CHECK_FALSE(minute.reset(identity, "eu"));
  CHECK_FALSE(minute.reset("a", "us"));
  check(minute.check_many(calls), {true, false, true, true, false, false, true, true, false, false, false},
        {1, 0, 2, 1, 2, 0, 2, 2, 2, 2, 0});
}
