// The server lives, and says no, while eight threads check.
#include <hiredis/hiredis.h>

#include <memory>

#include "load.hpp"

using namespace faults;

TEST_CASE("maxclients reached") {
  server redis;
  const auto seen = under_load("maxclients reached", redis, options(redis), [&](load& traffic) {
    redis.command({"CONFIG", "SET", "maxclients", "1"});
    redis.command({"CLIENT", "KILL", "TYPE", "normal"});
    traffic.wait_for_errors();
    a_while();
    redis.command({"CONFIG", "SET", "maxclients", "100"});
  });
  CHECK(only(seen, {errc::too_many_clients, errc::closed, errc::timeout}));
}

TEST_CASE("room for one connection, of four") {
  server redis;
  redis.command({"CONFIG", "SET", "maxclients", "3"});  // the observer and the unharmed one are two
  const auto seen = under_load("maxclients leaves room for one of four", redis, options(redis), [&](load&) {
    a_while();
    redis.command({"CONFIG", "SET", "maxclients", "100"});
  });
  // While the connections are first dialled, one may be turned away before another one is known to be open.
  CHECK(only(seen, {errc::too_many_clients, errc::timeout}));
  CHECK(seen.failed <= 100);
}

TEST_CASE("a wrong password, corrected later") {
  server redis{{.password = "right"}};
  auto to = options(redis);
  to.password = "right";
  const auto seen = under_load("wrong password, corrected later", redis, to, [&](load& traffic) {
    redis.command({"CONFIG", "SET", "requirepass", "other"});
    redis.command({"CLIENT", "KILL", "TYPE", "normal"});
    traffic.wait_for_errors();
    a_while();
    redis.command({"CONFIG", "SET", "requirepass", "right"});
  });
  CHECK(has(seen, errc::permission));
  CHECK(only(seen, {errc::permission, errc::closed, errc::timeout}));
}

TEST_CASE("maxmemory reached, with noeviction") {
  server redis;
  const auto seen = under_load("maxmemory, noeviction", redis, options(redis), [&](load& traffic) {
    redis.command({"CONFIG", "SET", "maxmemory", "1"});
    traffic.wait_for_errors();
    a_while();
    redis.command({"CONFIG", "SET", "maxmemory", "0"});
  });
  CHECK(has(seen, errc::out_of_memory));
  CHECK(only(seen, {errc::out_of_memory, errc::timeout}));
}

TEST_CASE("an ACL without one of the commands") {
  server redis{{.config = {"--user", "some", "on", ">pw", "~*", "+@all"}}};
  auto to = options(redis);
  to.username = "some";
  to.password = "pw";
  for (const char* const command : {"get", "evalsha"}) {
    const auto seen = under_load(std::string{"ACL without "} + command, redis, to, [&](load& traffic) {
      redis.command({"ACL", "SETUSER", "some", std::string{"-"} + command});
      traffic.wait_for_errors();
      a_while();
      redis.command({"ACL", "SETUSER", "some", std::string{"+"} + command});
    });
    CHECK(has(seen, errc::permission));
    CHECK(only(seen, {errc::permission, errc::timeout}));
    redis.command({"FLUSHALL"});
  }
}

TEST_CASE("LOADING") {
  // A server that reads its data set again takes 5 ms for each of these keys, and answers between them.
  server redis{{.config = {"--enable-debug-command", "yes", "--key-load-delay", "5000",
                           "--loading-process-events-interval-bytes", "1024"}}};
  for (int i = 0; i < 100; ++i) redis.command({"SET", "filler " + std::to_string(i), std::string(2000, 'x')});
  const auto seen = under_load("LOADING", redis, options(redis), [&](load&) { redis.command({"DEBUG", "RELOAD"}); });
  CHECK(has(seen, errc::loading));
  CHECK(only(seen, {errc::loading, errc::timeout}));
}

TEST_CASE("READONLY") {
  server redis;
  const auto seen = under_load("READONLY", redis, options(redis), [&](load& traffic) {
    redis.command({"REPLICAOF", "127.0.0.1", "1"});
    traffic.wait_for_errors();
    a_while();
    redis.command({"REPLICAOF", "NO", "ONE"});
  });
  CHECK(has(seen, errc::read_only));
  CHECK(only(seen, {errc::read_only, errc::timeout}));
}

TEST_CASE("BUSY") {
  server redis{{.config = {"--busy-reply-threshold", "50"}}};
  const std::unique_ptr<redisContext, decltype(&redisFree)> other{redisConnectUnix(redis.socket_path().c_str()),
                                                                  redisFree};
  REQUIRE(other->err == 0);
  const auto seen = under_load("BUSY", redis, options(redis), [&](load& traffic) {
    redisAppendCommand(other.get(), "EVAL %s 0", "while true do end");
    for (int done = 0; done == 0;) REQUIRE(redisBufferWrite(other.get(), &done) == REDIS_OK);
    traffic.wait_for_errors();
    a_while();
    CHECK(redis.command({"SCRIPT", "KILL"}).text == "OK");
  });
  CHECK(only(seen, {errc::busy, errc::timeout}));
  CHECK(seen.failed > 0);
}
