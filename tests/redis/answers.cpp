// What a check makes of answers that are wrong, late, cut, twice or none; and scripts the server has forgotten.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <ratelimit/sliding_counter.hpp>
#include <ratelimit/sliding_log.hpp>
#include <ratelimit/token_bucket.hpp>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/fake_server.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;
using support::bytes;
using support::fake_server;
using support::words;

// One unit taken of a fixed window that began at 0.
const std::string taken = "*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:1\r\n";

ratelimit::fixed_window<ratelimit::redis> limiter_on(ratelimit::redis& store, fail mode = fail::open,
                                                     std::chrono::microseconds deadline = 5s) {
  return {store, {.name = "t", .limit = 10, .window = 60s, .on_failure = mode, .deadline = deadline}};
}

ratelimit::redis_options one_connection_to(const fake_server& server) {
  return {.unix_path = server.socket_path(), .connections = 1};
}

void check_uncounted(const ratelimit::decision& d, source from, errc why) {
  CHECK(d.allowed == (from == source::failed_open));
  CHECK(d.from == from);
  CHECK(d.error == why);
  CHECK_FALSE(d.counted());
  CHECK(d.limit == 10);
  CHECK(d.used == 0);
  CHECK(d.remaining == 0);
  CHECK_FALSE(d.retry_after.has_value());
  CHECK(d.reset_after == 0us);
  CHECK(d.full_after == 0us);
  CHECK_FALSE(d.would_deny);
}

void check_taken(const ratelimit::decision& d) {
  CHECK(d.error == std::error_code{});
  CHECK(d.from == source::redis);
  CHECK(d.allowed);
  CHECK(d.used == 1);
  CHECK(d.remaining == 9);
}

}  // namespace

TEST_CASE("a malformed answer is told as such, and its connection is never used again") {
  for (const std::string& text : std::vector<std::string>{
           "$1\r\n1\r\n", "+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",  //
           "*4\r\n:3\r\n:5\r\n:0\r\n:0\r\n",                                    // short
           "*6\r\n:3\r\n:5\r\n:0\r\n:0\r\n:1\r\n:0\r\n",                        // long
           "*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n$1\r\n1\r\n",                         // a string for a number
           ",1.5\r\n", "_\r\n", "#t\r\n",                                       // RESP3
           "HTTP/1.1 400 Bad Request\r\n\r\n",                                  //
           std::string{"\0\0\0\0", 4},                                          //
           ":12x\r\n", "*2000000000\r\n", "*99999999999999\r\n", "$-7\r\n",     //
       }) {
    CAPTURE(text);
    std::atomic<bool> ill{true};
    fake_server server{[&](const words&) -> bytes { return ill ? text : taken; }};
    ratelimit::redis store{one_connection_to(server)};
    check_uncounted(limiter_on(store, fail::open).check("a"), source::failed_open, errc::protocol);
    check_uncounted(limiter_on(store, fail::closed).check("a"), source::failed_closed, errc::protocol);
    CHECK(server.connections() == 2);
    ill = false;
    check_taken(limiter_on(store).check("a"));
    check_taken(limiter_on(store).check("a"));
    CHECK(server.connections() == 3);
    CHECK(server.commands() == words{"EVALSHA", "EVALSHA", "EVALSHA", "EVALSHA"});
  }
}

TEST_CASE("a refusal is told as such, sent once, and keeps the connection") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", errc::out_of_memory},
           {"-READONLY You can't write against a read only replica.\r\n", errc::read_only},
           {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", errc::cluster},
           {"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", errc::permission},
           {"-ERR something else\r\n", errc::script},
           {"-ERR unknown command `EVALSHA`, with args beginning with: `2f`, \r\n", errc::unsupported_server},
       }) {
    CAPTURE(text);
    std::atomic<int> asked{0};
    fake_server server{[&, refusal = text](const words&) -> bytes { return ++asked <= 2 ? refusal : taken; }};
    ratelimit::redis store{one_connection_to(server)};
    check_uncounted(limiter_on(store, fail::open).check("a"), source::failed_open, why);
    check_uncounted(limiter_on(store, fail::closed).check("a"), source::failed_closed, why);
    check_taken(limiter_on(store).check("a"));
    CHECK(server.connections() == 1);
    CHECK(server.commands() == words{"EVALSHA", "EVALSHA", "EVALSHA"});
  }
}

TEST_CASE("a refusal that passes by itself is waited out on the same connection, a few times") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {"-LOADING Redis is loading the dataset in memory\r\n", errc::loading},
           {"-BUSY Redis is busy running a script.\r\n", errc::busy},
           {"-MASTERDOWN Link with MASTER is down\r\n", errc::cluster},
           {"-CLUSTERDOWN The cluster is down\r\n", errc::cluster},
           {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", errc::cluster},
       }) {
    CAPTURE(text);
    std::atomic<int> refusals{3};
    fake_server server{[&, refusal = text](const words&) -> bytes { return --refusals >= 0 ? refusal : taken; }};
    ratelimit::redis store{one_connection_to(server)};
    check_taken(limiter_on(store).check("a"));
    CHECK(server.commands() == words{"EVALSHA", "EVALSHA", "EVALSHA", "EVALSHA"});

    refusals = 4;
    check_uncounted(limiter_on(store).check("a"), source::failed_open, why);
    CHECK(server.commands().size() == 8);
    check_taken(limiter_on(store).check("a"));

    // Each call of a pipeline for itself.
    refusals = 2;
    for (const auto& d : limiter_on(store).check_many(std::vector<ratelimit::call>{{"a"}, {"b"}, {"c"}}))
      check_taken(d);
    CHECK(server.commands().size() == 9 + 3 + 2);
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("a refusal in the handshake is told as such, and nothing is asked on that connection") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {"-LOADING Redis is loading the dataset in memory\r\n", errc::loading},
           {"-WRONGPASS invalid username-password pair\r\n", errc::permission},
           {"-ERR invalid password\r\n", errc::permission},
           {":1\r\n", errc::protocol},
           {"?\r\n", errc::protocol},
       }) {
    for (const char* const refused : {"AUTH", "SELECT", "CLIENT"}) {
      CAPTURE(text, refused);
      std::atomic<bool> ill{true};
      fake_server server{[&, refusal = text](const words& said) -> bytes {
        if (ill && said.front() == refused) return refusal;
        return said.front() == "EVALSHA" ? taken : "+OK\r\n";
      }};
      auto to = one_connection_to(server);
      to.password = "pw";
      to.database = 1;
      to.client_name = "n";
      ratelimit::redis store{to};
      check_uncounted(limiter_on(store).check("a"), source::failed_open, why);
      CHECK(server.connections() == 1);
      support::wait_until([&] { return server.open_connections() == 0; });
      ill = false;
      check_taken(limiter_on(store).check("a"));
      CHECK(server.connections() == 2);
    }
  }
}

TEST_CASE("a connection that breaks before the answer: nothing is sent again") {
  for (const std::string& text : std::vector<std::string>{"", taken.substr(0, 1), taken.substr(0, taken.size() - 1)}) {
    CAPTURE(text);
    std::atomic<int> asked{0};
    fake_server server{[&](const words&) { return ++asked == 2 ? bytes{text, true} : bytes{taken}; }};
    ratelimit::redis store{one_connection_to(server)};
    check_taken(limiter_on(store).check("a"));
    check_uncounted(limiter_on(store).check("a"), source::failed_open, errc::closed);
    CHECK(server.commands() == words{"EVALSHA", "EVALSHA"});
    check_taken(limiter_on(store).check("a"));
    CHECK(server.connections() == 2);
  }
}

TEST_CASE("a connection closed after the answer is replaced, unnoticed by the next check") {
  std::atomic<int> asked{0};
  fake_server server{[&](const words&) { return bytes{taken, ++asked == 1}; }};
  ratelimit::redis store{one_connection_to(server)};
  check_taken(limiter_on(store).check("a"));
  support::wait_until([&] { return server.open_connections() == 0; });
  check_taken(limiter_on(store).check("a"));
  CHECK(server.connections() == 2);
  CHECK(server.commands() == words{"EVALSHA", "EVALSHA"});
}

TEST_CASE("no answer reaches the wrong check: late ones and surplus ones go with their connection") {
  const std::string other = "*5\r\n:2\r\n:7\r\n:0\r\n:0\r\n:10\r\n";
  std::atomic<int> asked{0};
  SECTION("a surplus answer") {
    fake_server server{[&](const words&) -> bytes { return ++asked == 1 ? taken + other : taken; }};
    ratelimit::redis store{one_connection_to(server)};
    check_taken(limiter_on(store).check("a"));
    check_taken(limiter_on(store).check("a"));
    CHECK(server.connections() == 2);
  }
  SECTION("a late answer") {
    fake_server server{[&](const words&) -> bytes {
      if (++asked > 1) return taken;
      std::this_thread::sleep_for(200ms);
      return other;
    }};
    ratelimit::redis store{one_connection_to(server)};
    check_uncounted(limiter_on(store, fail::open, 50ms).check("a"), source::failed_open, errc::timeout);
    check_taken(limiter_on(store).check("a"));
    CHECK(server.connections() == 2);
    CHECK(server.commands() == words{"EVALSHA", "EVALSHA"});
  }
}

TEST_CASE("an answer byte by byte counts when it is whole in time, and drips make no check longer") {
  std::atomic<int> asked{0};
  fake_server server{[&](const words&) { return bytes{taken, false, ++asked == 1 ? 1ms : 20ms}; }};
  ratelimit::redis store{one_connection_to(server)};
  check_taken(limiter_on(store).check("a"));
  check_uncounted(limiter_on(store, fail::open, 100ms).check("a"), source::failed_open, errc::timeout);
}

TEST_CASE("a server that listens and never answers") {
  fake_server server{[](const words&) -> bytes { return ""; }};
  ratelimit::redis store{one_connection_to(server)};
  check_uncounted(limiter_on(store, fail::closed, 50ms).check("a"), source::failed_closed, errc::timeout);
  auto to = one_connection_to(server);
  to.password = "pw";  // then it is the handshake that waits
  ratelimit::redis with_password{to};
  check_uncounted(limiter_on(with_password, fail::open, 50ms).check("a"), source::failed_open, errc::timeout);
}

TEST_CASE("a pipeline that breaks: each call has its own answer or its own error, and nothing is sent again") {
  const std::vector<ratelimit::call> calls{{"a"}, {"b"}, {"c"}};
  std::atomic<int> asked{0};
  const auto decide = [&](bytes second) {
    fake_server server{[&](const words&) { return ++asked == 3 ? second : bytes{taken}; }};
    ratelimit::redis store{one_connection_to(server)};
    check_taken(limiter_on(store).check("first"));  // so that the pipeline goes out on a used connection
    const auto decided = limiter_on(store).check_many(calls);
    REQUIRE(decided.size() == 3);
    check_taken(decided[0]);
    CHECK(server.commands().size() == static_cast<std::size_t>(asked));
    check_taken(limiter_on(store).check("afterwards"));
    CHECK(server.connections() == 2);
    return decided;
  };
  SECTION("closed before the second answer") {
    const auto decided = decide({"", true});
    check_uncounted(decided[1], source::failed_open, errc::closed);
    check_uncounted(decided[2], source::failed_open, errc::closed);
  }
  SECTION("closed in the middle of it") {
    const auto decided = decide({taken.substr(0, 7), true});
    check_uncounted(decided[1], source::failed_open, errc::closed);
    check_uncounted(decided[2], source::failed_open, errc::closed);
  }
  SECTION("a malformed second answer") {
    // Nobody knows to whom the third belongs.
    const auto decided = decide("+OK\r\n");
    check_uncounted(decided[1], source::failed_open, errc::protocol);
    check_uncounted(decided[2], source::failed_open, errc::protocol);
  }
}

TEST_CASE("a malformed call sends nothing") {
  fake_server server{[](const words&) -> bytes { return taken; }};
  ratelimit::redis store{one_connection_to(server)};
  const auto limiter = limiter_on(store);
  for (const auto cost : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    check_uncounted(limiter.check("a", {}, cost), source::invalid, errc::invalid_cost);
    check_uncounted(limiter.peek("a", {}, cost), source::invalid, errc::invalid_cost);
    check_uncounted(limiter.refund("a", {}, cost), source::invalid, errc::invalid_cost);
  }
  check_uncounted(limiter.check(""), source::invalid, errc::invalid_identity);
  CHECK(limiter.reset("") == errc::invalid_identity);
  CHECK(server.connections() == 0);
  CHECK(server.heard().empty());
}

TEST_CASE("a script the server does not know: its source follows once") {
  SECTION("on a server that then knows it") {
    support::server redis;
    ratelimit::redis store{redis.url()};
    const auto limiter = limiter_on(store);
    for (int i = 1; i <= 5; ++i) CHECK(limiter.check("a").remaining == 10 - i);
    redis.command({"SCRIPT", "FLUSH"});
    redis.reset_statistics();
    const auto d = limiter.check("a");
    CHECK(d.from == source::redis);
    CHECK(d.used == 6);
    CHECK(d.remaining == 4);
    CHECK(redis.calls("evalsha") == 1);
    CHECK(redis.calls("eval") == 1);
    CHECK(limiter.check("a").remaining == 3);
    CHECK(redis.calls("evalsha") == 2);
    CHECK(redis.calls("eval") == 1);
    CHECK(redis.calls("script|load") == 0);
  }
  SECTION("on one that never knows any") {
    fake_server server{[](const words&) -> bytes { return "-NOSCRIPT No matching script. Please use EVAL.\r\n"; }};
    ratelimit::redis store{one_connection_to(server)};
    check_uncounted(limiter_on(store).check("a"), source::failed_open, errc::script);
    CHECK(server.commands() == words{"EVALSHA", "EVAL"});
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("a server restarted under load has no check fail for an unknown script") {
  support::server redis;
  ratelimit::redis store{redis.url()};
  const ratelimit::fixed_window limiter{store,
                                        {.name = "t", .limit = 1'000'000, .window = 24h, .on_failure = fail::open}};
  std::atomic<bool> done{false};
  std::atomic<int> scripts_failed{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, who = std::to_string(i)] {
      while (!done) {
        const auto d = limiter.check(who);
        if (d.error == errc::script || d.error == errc::protocol) ++scripts_failed;
        if (!d.allowed || d.counted() == static_cast<bool>(d.error)) ++wrong;
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    support::wait_until([&] { return redis.calls("evalsha") > 100; });
    redis.kill();
    redis.start();
  }
  support::wait_until([&] { return redis.calls("evalsha") > 100; });
  done = true;
  for (auto& thread : threads) thread.join();
  CHECK(scripts_failed == 0);
  CHECK(wrong == 0);
  CHECK(limiter.check("0").from == source::redis);
}

TEST_CASE("the server works out the same SHA-1 of each script") {
  support::server redis;
  for (const auto& code : {ratelimit::detail::scripts::sliding_log, ratelimit::detail::scripts::compact_log,
                           ratelimit::detail::scripts::sliding_counter, ratelimit::detail::scripts::token_bucket,
                           ratelimit::detail::scripts::fixed_window, ratelimit::detail::scripts::all_of}) {
    CHECK(redis.command({"SCRIPT", "LOAD", std::string{code.source}}).text == code.sha1);
  }
}
