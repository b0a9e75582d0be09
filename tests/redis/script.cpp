// What is sent for a request, and what is made of a reply: no server needed.
#include <array>
#include <limits>
#include <memory>
#include <ratelimit/redis/answer.hpp>
#include <ratelimit/redis/script.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"

namespace {

using namespace ratelimit;
using detail::again;
using detail::named_by;

constexpr auto max_exact = (std::int64_t{1} << 53) - 1;

std::string command(const request& what, named_by name) {
  std::string out;
  detail::append_request(out, what, name);
  return out;
}

std::string written(std::vector<std::string_view> words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const auto word : words) out += "$" + std::to_string(word.size()) + "\r\n" + std::string{word} + "\r\n";
  return out;
}

// The reply that these bytes are, as hiredis reads it.
detail::reply parsed(std::string_view text) {
  const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader{redisReaderCreate(), redisReaderFree};
  REQUIRE(redisReaderFeed(reader.get(), text.data(), text.size()) == REDIS_OK);
  void* raw = nullptr;
  REQUIRE(redisReaderGetReply(reader.get(), &raw) == REDIS_OK);
  REQUIRE(raw != nullptr);
  return detail::reply{static_cast<redisReply*>(raw)};
}

request asking(algorithm_id algorithm, operation op = operation::take) {
  return {algorithm, op, "k", {100, 60'000'000, 7}, 1, std::nullopt};
}

}  // namespace

TEST_CASE("a request as a command") {
  const auto sha = detail::scripts::token_bucket.sha1;
  request what{algorithm_id::token_bucket, operation::take, "ratelimit:bucket:x:{a}:b", {100, 60'000'000, 7}, 3, 12345};
  const auto with = [&](std::string_view now, std::initializer_list<std::string_view> more) {
    std::vector<std::string_view> words{"EVALSHA", sha, "1", what.key, now, "100", "60000000", "7"};
    words.insert(words.end(), more);
    std::string out;
    detail::append_command(out, words);
    return out;
  };
  CHECK(command(what, named_by::sha1) == with("12345", {"3"}));
  what.cost = 1;
  CHECK(command(what, named_by::sha1) == with("12345", {}));
  what.op = operation::peek;
  CHECK(command(what, named_by::sha1) == with("12345", {"1", "peek"}));
  what.op = operation::refund;
  what.cost = 3;
  what.now = std::nullopt;
  CHECK(command(what, named_by::sha1) == with("", {"3", "refund"}));
  what.now = 0;
  CHECK(command(what, named_by::sha1) == with("0", {"3", "refund"}));
  what.now = -max_exact;
  CHECK(command(what, named_by::sha1) == with("-9007199254740991", {"3", "refund"}));
  CHECK(command(what, named_by::source) == written({"EVAL", detail::scripts::token_bucket.source, "1", what.key,
                                                    "-9007199254740991", "100", "60000000", "7", "3", "refund"}));
  what.op = operation::reset;
  CHECK(command(what, named_by::sha1) == written({"DEL", what.key}));
  CHECK(command(what, named_by::source) == written({"DEL", what.key}));
}

TEST_CASE("a refund that knows when, a call with an id, a block") {
  const auto sha = detail::scripts::fixed_window.sha1;
  request what{algorithm_id::fixed_window, operation::refund, "k", {10, 1000, 0}, 2, std::nullopt};
  what.taken = 77;
  CHECK(command(what, named_by::sha1) ==
        written({"EVALSHA", sha, "1", "k", "", "10", "1000", "", "2", "refund", "77"}));
  what.op = operation::take;
  what.taken.reset();
  what.once = "k:id";
  what.once_for = 1000;
  CHECK(command(what, named_by::sha1) ==
        written({"EVALSHA", sha, "2", "k", "k:id", "", "10", "1000", "", "2", "", "", "1000"}));
  what.op = operation::block;
  what.once = {};
  CHECK(command(what, named_by::sha1) == written({"EVALSHA", sha, "1", "k", "", "10", "1000", "", "2", "block"}));
}

TEST_CASE("a group is one command, and its reply one outcome each") {
  const std::vector<request> both{{algorithm_id::fixed_window, operation::take, "f", {10, 1000, 0}, 2, 5},
                                  {.algorithm = algorithm_id::sliding_log,
                                   .op = operation::take,
                                   .key = "l",
                                   .numbers = {20, 2000, 0},
                                   .cost = 2,
                                   .now = 5,
                                   .binding = false}};
  std::string out;
  detail::append_group(out, both, named_by::sha1);
  CHECK(out == written({"EVALSHA",
                        detail::scripts::all_of.sha1,
                        "2",
                        "f",
                        "l",
                        "5",
                        "take",
                        "2",
                        "",
                        "",  //
                        "fixed_window",
                        "binding",
                        "10",
                        "1000",
                        "0",  //
                        "sliding_log",
                        "shadow",
                        "20",
                        "2000",
                        "0"}));

  std::array<outcome, 2> seen;
  const std::string reply =
      "*3\r\n:5\r\n*6\r\n:1\r\n:0\r\n:1\r\n:2\r\n:0\r\n:0\r\n*6\r\n:4\r\n:9\r\n:3\r\n:4\r\n:5\r\n:6\r\n";
  CHECK(detail::read_group(both, *parsed(reply), seen).error() == std::error_code{});
  CHECK(seen[0].allowed);
  CHECK_FALSE(seen[0].repeated);
  CHECK(seen[0].now == 5);
  CHECK(seen[0].blocked == 0);
  CHECK(seen[0].view == std::array<std::int64_t, 4>{1, 2, 0, 0});
  CHECK_FALSE(seen[1].allowed);
  CHECK(seen[1].repeated);
  CHECK(seen[1].now == 5);
  CHECK(seen[1].blocked == 9);
  CHECK(seen[1].view == std::array<std::int64_t, 4>{3, 4, 5, 6});

  // A part told by one number: of a fixed window, how many; of a log, how many windows and the oldest entry's age.
  CHECK(detail::read_group(both, *parsed("*3\r\n:1005\r\n:7\r\n:-38005\r\n"), seen).error() == std::error_code{});
  CHECK(seen[0].allowed);
  CHECK(seen[0].now == 1005);
  CHECK(seen[0].view == std::array<std::int64_t, 4>{1000, 7, 1005, 1005});
  CHECK_FALSE(seen[1].allowed);
  CHECK(seen[1].view == std::array<std::int64_t, 4>{19, 1001, 1005, 1005});

  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {":5\r\n", errc::protocol},
           {"*2\r\n:5\r\n:6\r\n", errc::protocol},                                                 // short
           {"*4\r\n:5\r\n:6\r\n:6\r\n:6\r\n", errc::protocol},                                     // long
           {"*3\r\n$1\r\n5\r\n:6\r\n:6\r\n", errc::protocol},                                      // no time
           {"*3\r\n:5\r\n:6\r\n:9007199254740992\r\n", errc::protocol},                            // not exact
           {"*3\r\n:5\r\n:6\r\n*5\r\n:1\r\n:0\r\n:1\r\n:2\r\n:0\r\n", errc::protocol},             // short
           {"*3\r\n:5\r\n:6\r\n*6\r\n:2\r\n:0\r\n:1\r\n:2\r\n:0\r\n:0\r\n", errc::protocol},       // no flag
           {"*3\r\n:5\r\n:6\r\n*6\r\n:1\r\n:0\r\n:1\r\n:2\r\n:0\r\n$1\r\n0\r\n", errc::protocol},  // a string
           {"*3\r\n:5\r\n:6\r\n-ERR inside\r\n", errc::protocol},
           {"*3\r\n:-9223372036854775808\r\n:6\r\n:6\r\n", errc::protocol},
           {"-OOM command not allowed\r\n", errc::out_of_memory}}) {
    CAPTURE(text);
    CHECK(detail::read_group(both, *parsed(text), seen).error() == why);
    for (const outcome& one : seen) {
      CHECK(one.error == why);
      CHECK_FALSE(one.allowed);
      CHECK(one.view == std::array<std::int64_t, 4>{});
    }
  }
  CHECK(detail::read_group(both, *parsed("-NOSCRIPT No matching script.\r\n"), seen).ask == again::by_source);
  CHECK(detail::read_group(both, *parsed("-BUSY Redis is busy running a script.\r\n"), seen).ask == again::later);
}

TEST_CASE("each algorithm has its script") {
  for (const auto& [algorithm, code] : std::vector<std::pair<algorithm_id, detail::script>>{
           {algorithm_id::sliding_log, detail::scripts::sliding_log},
           {algorithm_id::compact_log, detail::scripts::compact_log},
           {algorithm_id::sliding_counter, detail::scripts::sliding_counter},
           {algorithm_id::token_bucket, detail::scripts::token_bucket},
           {algorithm_id::fixed_window, detail::scripts::fixed_window}}) {
    CHECK(detail::script_of(algorithm).name == code.name);
  }
}

TEST_CASE("keys and numbers keep every byte and digit") {
  const std::string key{"a\0b\r\n*1\r\n%s \xff", 14};
  const request what{algorithm_id::fixed_window, operation::take, key, {max_exact, max_exact, 0}, max_exact, max_exact};
  const std::string_view most = "9007199254740991";
  CHECK(command(what, named_by::sha1) ==
        written({"EVALSHA", detail::scripts::fixed_window.sha1, "1", key, most, most, most, "", most}));
  CHECK(detail::decimal{std::numeric_limits<std::int64_t>::min()}.view() == "-9223372036854775808");
}

TEST_CASE("a reply as an outcome") {
  const auto check = [](algorithm_id algorithm, std::string_view text, bool allowed, std::int64_t now,
                        std::int64_t blocked, std::array<std::int64_t, 4> view, bool repeated = false) {
    CAPTURE(text);
    request what = asking(algorithm);
    what.now = 9;
    const auto got = detail::read_reply(what, *parsed(text));
    CHECK(got.result.error == std::error_code{});
    CHECK(got.result.allowed == allowed);
    CHECK(got.result.repeated == repeated);
    CHECK(got.result.now == now);
    CHECK(got.result.blocked == blocked);
    CHECK(got.result.view == view);
    CHECK(got.ask == again::no);
  };
  const std::int64_t w0 = 1700000040000000;
  for (const auto log : {algorithm_id::sliding_log, algorithm_id::compact_log}) {
    check(log, "*7\r\n:3\r\n:1700000040000000\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n", true, w0, 0, {1, 2, 3, 4});
    check(log, "*5\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n", false, 9, 0, {1, 2, 3, 4});
    check(log, "*3\r\n:1\r\n:1\r\n:2\r\n", true, 9, 0, {1, 2, 9, 9});
  }
  check(algorithm_id::sliding_counter, "*6\r\n:2\r\n:9\r\n:12\r\n:1\r\n:2\r\n:9007199254740991\r\n", false, 9, 12,
        {1, 2, max_exact, 9});
  check(algorithm_id::token_bucket, "*6\r\n:3\r\n:-9\r\n:0\r\n:1\r\n:2\r\n:-3\r\n", true, -9, 0, {1, 2, -3, -9});
  check(algorithm_id::fixed_window, "*5\r\n:2\r\n:0\r\n:0\r\n:60000000\r\n:5\r\n", false, 0, 0, {60'000'000, 5, 0, 0});
  check(algorithm_id::fixed_window, "*3\r\n:1\r\n:60000000\r\n:5\r\n", true, 9, 0, {60'000'000, 5, 9, 9});
  check(algorithm_id::fixed_window, "*5\r\n:6\r\n:7\r\n:0\r\n:60000000\r\n:5\r\n", false, 7, 0, {60'000'000, 5, 7, 7},
        true);

  // One number: the window of these is a minute, their limit 100, the call's time 9.
  for (const auto log : {algorithm_id::sliding_log, algorithm_id::compact_log}) {
    check(log, ":300000004\r\n", true, 9, 0, {5, 5, 9, 9});
    check(log, ":0\r\n", true, 9, 0, {0, 9, 9, 9});
    check(log, ":-6000000005\r\n", false, 9, 0, {100, 5, 9, 9});
  }
  check(algorithm_id::sliding_counter, ":134217731\r\n", true, 9, 0, {0, 3, 2, 9});
  check(algorithm_id::sliding_counter, ":-3355443261\r\n", false, 9, 0, {0, 60, 50, 9});
  check(algorithm_id::token_bucket, ":120000007\r\n", true, 9, 0, {2, 7, 9, 9});
  check(algorithm_id::token_bucket, ":-8\r\n", false, 9, 0, {0, 7, 9, 9});
  check(algorithm_id::fixed_window, ":100\r\n", true, 9, 0, {0, 100, 9, 9});
  check(algorithm_id::fixed_window, ":-9007199254740992\r\n", false, 9, 0, {0, max_exact, 9, 9});

  // With the server's time.
  const auto timed = detail::read_reply(asking(algorithm_id::fixed_window), *parsed("$14\r\n1700000040 1 5\r\n"));
  CHECK(timed.result.error == std::error_code{});
  CHECK(timed.result.allowed);
  CHECK(timed.result.now == w0 + 1);
  CHECK(timed.result.blocked == 0);
  CHECK(timed.result.view == std::array<std::int64_t, 4>{w0, 5, w0 + 1, w0 + 1});

  request large = asking(algorithm_id::token_bucket);
  large.numbers.limit = 100'000'000;
  const auto level = detail::read_reply(large, *parsed("*2\r\n:1700000040000001\r\n:5999999940000007\r\n"));
  CHECK(level.result.error == std::error_code{});
  CHECK(level.result.allowed);
  CHECK(level.result.view == std::array<std::int64_t, 4>{99'999'999, 7, w0 + 1, w0 + 1});

  // A full compact log, by the times of its oldest and its newest entry.
  check(algorithm_id::compact_log, "$4\r\n-7 5\r\n", false, 9, 0, {100, -7, 5, -7});
  check(algorithm_id::compact_log, "$5\r\n12 12\r\n", false, 9, 0, {100, 12, 12, 12});  // ahead of the clock
  request dear = asking(algorithm_id::compact_log, operation::peek);
  dear.cost = 100;
  const auto full = detail::read_reply(dear, *parsed("$51\r\n1700000040 999999 1700000000000000 1700000000000005\r\n"));
  CHECK(full.result.error == std::error_code{});
  CHECK_FALSE(full.result.allowed);
  CHECK(full.result.now == w0 + 999'999);
  CHECK(full.result.view == std::array<std::int64_t, 4>{1, w0 - 40'000'000, w0 - 39'999'995, w0 - 40'000'000});

  const auto reset = asking(algorithm_id::sliding_log, operation::reset);
  CHECK(detail::read_reply(reset, *parsed(":0\r\n")).result.error == std::error_code{});
  CHECK(detail::read_reply(reset, *parsed(":1\r\n")).result.allowed);
}

TEST_CASE("what is not an answer of the scripts is a protocol error, never a verdict") {
  for (const std::string_view text : {
           "$1\r\n1\r\n",
           "+OK\r\n",
           ":1\r\n",
           "$-1\r\n",
           "*-1\r\n",
           "*0\r\n",
           "*1\r\n:1\r\n",
           "*2\r\n:0\r\n:9007199254740992\r\n",           // more than is exact
           "*2\r\n:0\r\n:-9007199254740993\r\n",          //
           "$20\r\n0 0 9007199254740992\r\n",             // more than is exact
           "$21\r\n0 0 -9007199254740993\r\n",            //
           "$24\r\n0 0 99999999999999999999\r\n",         //
           "$14\r\n9007199255 0 5\r\n",                   // a time that is not
           "$11\r\n7 1000000 5\r\n",                      //
           "$6\r\n7 -1 5\r\n",                            //
           "$6\r\n-7 1 5\r\n",                            //
           "$0\r\n\r\n",                                  // no numbers
           "$3\r\n7 1\r\n",                               //
           "$6\r\n7 1 5 \r\n",                            //
           "$6\r\n7  1 5\r\n",                            //
           "$6\r\n 7 1 5\r\n",                            //
           "$5\r\n7,1 5\r\n",                             //
           "$6\r\n7 1 5\n\r\n",                           //
           "$6\r\n7 1 +5\r\n",                            //
           "$7\r\n7 1 0x5\r\n",                           //
           "$7\r\n7 1 5 6\r\n",                           // the times of a log's entries
           "$9\r\n7 1 5 6 7\r\n",                         //
           "*4\r\n:3\r\n:0\r\n:0\r\n:0\r\n",              // short
           "*6\r\n:3\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n",  // long
           "*3\r\n:1\r\n:0\r\n:0\r\n",                    // without the server's time
           "*5\r\n:3\r\n:0\r\n:0\r\n:0\r\n$1\r\n0\r\n",   // a string
           "*5\r\n:3\r\n:0\r\n:0\r\n:0\r\n$-1\r\n",       // a nil
           "*5\r\n:3\r\n:0\r\n:0\r\n:0\r\n*1\r\n:0\r\n",  // an array
           "*5\r\n$1\r\n1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",   //
           "*2\r\n:-9223372036854775808\r\n:5\r\n",       // times of no clock
           "*5\r\n:2\r\n:9223372036854775807\r\n:0\r\n:0\r\n:5\r\n",
           "*5\r\n:2\r\n:7\r\n:0\r\n:-9223372036854775808\r\n:5\r\n",
           "*5\r\n:8\r\n:0\r\n:0\r\n:0\r\n:0\r\n",           // neither yes nor no
           "*5\r\n:-1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",          //
           "*5\r\n:3\r\n:0\r\n:0\r\n:0\r\n-ERR inside\r\n",  //
       }) {
    CAPTURE(text);
    const auto got = detail::read_reply(asking(algorithm_id::fixed_window), *parsed(text));
    CHECK(got.result.error == errc::protocol);
    CHECK_FALSE(got.result.allowed);
    CHECK(got.ask == again::no);
  }
  const auto reset = asking(algorithm_id::fixed_window, operation::reset);
  CHECK(detail::read_reply(reset, *parsed("+OK\r\n")).result.error == errc::protocol);
  CHECK(detail::read_reply(reset, *parsed("*5\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n")).result.error == errc::protocol);
}

TEST_CASE("a verdict that cannot be true of the state told with it is a protocol error") {
  for (const auto& [algorithm, text] : std::vector<std::pair<algorithm_id, std::string>>{
           {algorithm_id::sliding_log, ":6060000000\r\n"},       // allowed with 101 of 100
           {algorithm_id::sliding_log, ":-5940000001\r\n"},      // refused with 99
           {algorithm_id::sliding_counter, ":101\r\n"},          //
           {algorithm_id::sliding_counter, ":-3288334386\r\n"},  // 49 before, 49 now
           {algorithm_id::token_bucket, ":6060000000\r\n"},      // 101 tokens of 100
           {algorithm_id::token_bucket, ":-60000001\r\n"},       // refused with a token left
           {algorithm_id::fixed_window, ":101\r\n"},             //
           {algorithm_id::fixed_window, ":-100\r\n"},            //
           {algorithm_id::fixed_window, ":9007199254740992\r\n"},
           {algorithm_id::fixed_window, "$3\r\n1 5\r\n"},          // no log
           {algorithm_id::sliding_log, "$3\r\n1 5\r\n"},           // one with a reply of its own
           {algorithm_id::compact_log, "$1\r\n5\r\n"},             //
           {algorithm_id::compact_log, "$5\r\n1 5 6\r\n"},         //
           {algorithm_id::compact_log, "$3\r\n5 1\r\n"},           // the oldest is newer than the newest
           {algorithm_id::compact_log, "$11\r\n-59999991 5\r\n"},  // is over
           {algorithm_id::compact_log, "$11\r\n-1 60000000\r\n"}}) {
    CAPTURE(text);
    request what = asking(algorithm);
    what.now = 9;
    CHECK(detail::read_reply(what, *parsed(text)).result.error == errc::protocol);
  }
  for (const auto op : {operation::refund, operation::block}) {
    request what = asking(algorithm_id::compact_log, op);
    what.now = 9;
    CHECK(detail::read_reply(what, *parsed("$3\r\n1 5\r\n")).result.error == errc::protocol);
  }
  request never = asking(algorithm_id::compact_log);
  never.now = 9;
  never.cost = 101;
  CHECK(detail::read_reply(never, *parsed("$3\r\n1 5\r\n")).result.error == errc::protocol);
  // A refund's verdict is that of before it.
  request what = asking(algorithm_id::fixed_window, operation::refund);
  what.now = 9;
  CHECK(detail::read_reply(what, *parsed(":-100\r\n")).result.view == std::array<std::int64_t, 4>{0, 99, 9, 9});
}

TEST_CASE("what an error reply means") {
  for (const auto& [text, kind] : std::vector<std::pair<std::string, errc>>{
           {"NOAUTH Authentication required.", errc::permission},
           {"WRONGPASS invalid username-password pair or user is disabled.", errc::permission},
           {"NOPERM this user has no permissions to run the 'evalsha' command", errc::permission},
           {"NOPERM this user has no permissions to access one of the keys used as arguments", errc::permission},
           {"DENIED Redis is running in protected mode", errc::permission},
           {"ERR The user executing the script can't run this command or subcommand script: 62, on @user_script:1.",
            errc::permission},
           {"ERR The user executing the script can't access at least one of the keys mentioned in the command "
            "arguments script: 2c, on @user_script:1.",
            errc::permission},
           {"ERR ACL failure in script: User b has no permissions to run the 'get' command", errc::permission},
           {"OOM command not allowed when used memory > 'maxmemory'. script: 2f, on @user_script:1.",
            errc::out_of_memory},
           {"READONLY You can't write against a read only replica. script: 2f, on @user_script:1.", errc::read_only},
           {"LOADING Redis is loading the dataset in memory", errc::loading},
           {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", errc::busy},
           {"MOVED 3999 192.0.2.1:6381", errc::cluster},
           {"ASK 3999 192.0.2.1:6381", errc::cluster},
           {"CROSSSLOT Keys in request don't hash to the same slot", errc::cluster},
           {"CLUSTERDOWN The cluster is down", errc::cluster},
           {"TRYAGAIN Multiple keys request during rehashing of slot", errc::cluster},
           {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", errc::cluster},
           {"ERR max number of clients reached", errc::too_many_clients},
           {"ERR max number of clients + cluster connections reached", errc::too_many_clients},
           {"WRONGTYPE Operation against a key holding the wrong kind of value", errc::script},
           {"ERR user_script:1: Script attempted to access nonexistent global variable 'foo'", errc::script},
           {"ERR unknown command 'EVALSHA'", errc::unsupported_server},
           {"ERR Error running script (call to f_2f): @user_script:9: @user_script: 9: Write commands not allowed "
            "after "
            "non deterministic commands. Call redis.replicate_commands() at the start of your script",
            errc::unsupported_server},
           {"NOSCRIPT No matching script. Please use EVAL.", errc::script},
           {"OOMS", errc::script},
           {"BUSYKEY Target key name already exists.", errc::script},
           {"OOM", errc::out_of_memory},
           {"", errc::script},
       }) {
    CAPTURE(text);
    const auto got = detail::read_reply(asking(algorithm_id::fixed_window), *parsed("-" + text + "\r\n"));
    CHECK(got.result.error == kind);
    CHECK_FALSE(got.result.allowed);
    const bool passes = kind == errc::loading || kind == errc::busy || text.starts_with("CLUSTERDOWN") ||
                        text.starts_with("TRYAGAIN") || text.starts_with("MASTERDOWN");
    CHECK(got.ask == (passes ? again::later : text.starts_with("NOSCRIPT ") ? again::by_source : again::no));
  }
  CHECK(detail::handshake_errc_of("ERR DB index is out of range") == errc::database);
  CHECK(detail::handshake_errc_of("ERR invalid DB index") == errc::database);
  CHECK(detail::handshake_errc_of("ERR AUTH <password> called without any password configured") == errc::permission);
  CHECK(detail::handshake_errc_of("LOADING Redis is loading the dataset in memory") == errc::loading);
  CHECK(detail::handshake_errc_of("ERR max number of clients reached") == errc::too_many_clients);
}
