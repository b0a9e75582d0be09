// A connection's life against a real server: introduced each time, replaced when it broke, refused by the server.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <ratelimit/sliding_log.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::manual_clock;
using ratelimit::source;
using support::server;

const manual_clock clock_at{ratelimit::time_point{1'700'000'040s}};

// Long enough that only what the test does can end it.
ratelimit::fixed_window<ratelimit::redis, manual_clock> hourly(ratelimit::redis& store,
                                                               std::chrono::microseconds deadline = 5s) {
  return {store, {.name = "t", .limit = 1000, .window = 1h, .on_failure = fail::open, .deadline = deadline}, clock_at};
}

long long keys_in(server& where, int database) {
  return where
      .command({"EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('DBSIZE')", "0", std::to_string(database)})
      .number;
}

// The lines of CLIENT LIST but the observer's own.
std::vector<std::string> clients(server& where) {
  const auto own = " id=" + std::to_string(where.command({"CLIENT", "ID"}).number) + " ";
  std::istringstream list{where.command({"CLIENT", "LIST"}).text};
  std::vector<std::string> out;
  for (std::string line; std::getline(list, line);) {
    if ((" " + line).find(own) == std::string::npos) out.push_back(line);
  }
  return out;
}

bool has(const std::string& line, const std::string& field) {
  return (line + " ").find(field + " ") < line.size();
}

void check_counted(const ratelimit::decision& d, std::int64_t used) {
  CHECK(d.error == std::error_code{});
  CHECK(d.from == source::redis);
  CHECK(d.allowed);
  CHECK(d.used == used);
  CHECK(d.remaining == 1000 - used);
}

void check_failed(const ratelimit::decision& d, errc why) {
  CHECK(d.error == why);
  CHECK(d.from == source::failed_open);
  CHECK(d.allowed);
  CHECK_FALSE(d.counted());
}

}  // namespace

TEST_CASE("user, database and name are given again on every new connection") {
  server redis{{.tcp = true, .config = {"--user", "limiter", "on", ">p@ss w", "~*", "+@all"}}};
  const auto which = GENERATE(0, 1);
  ratelimit::redis_options to{.username = "limiter", .password = "p@ss w", .database = 3, .client_name = "api:1"};
  if (which == 0) {
    to.port = redis.port();
  } else {
    to.unix_path = redis.socket_path();
  }
  ratelimit::redis store{to};
  const auto limiter = hourly(store);

  for (int round = 1; round <= 10; ++round) {
    check_counted(limiter.check("a"), round);
    CHECK(keys_in(redis, 3) == 1);
    CHECK(keys_in(redis, 0) == 0);
    const auto seen = clients(redis);
    REQUIRE(seen.size() == 1);
    CHECK(has(seen[0], "name=api:1"));
    CHECK(has(seen[0], "db=3"));
    CHECK(has(seen[0], "user=limiter"));
    CHECK(redis.command({"CLIENT", "KILL", "TYPE", "normal"}).number == 1);
  }

  redis.freeze();
  check_failed(hourly(store, 100ms).check("a"), errc::timeout);
  redis.thaw();
  check_counted(limiter.check("a"), 11);

  redis.stop();
  check_failed(limiter.check("a"), errc::refused);
  redis.start();
  // A fresh server knows no user of that name but the one in its arguments, and no count.
  check_counted(limiter.check("a"), 1);
  CHECK(keys_in(redis, 3) == 1);
}

TEST_CASE("two stores on one server keep to their databases") {
  server redis;
  ratelimit::redis zero{redis.url()}, five{redis.url() + "?db=5"};
  const auto in_zero = hourly(zero), in_five = hourly(five);
  for (int i = 1; i <= 20; ++i) {
    check_counted(in_zero.check("a"), i);
    check_counted(in_five.check("a"), i);
  }
  CHECK(keys_in(redis, 0) == 1);
  CHECK(keys_in(redis, 5) == 1);
}

TEST_CASE("an idle connection that the server closed is replaced before anything is sent") {
  std::signal(SIGPIPE, SIG_DFL);  // a single one would end this process
  server redis{{.tcp = true}};
  ratelimit::redis store{GENERATE(0, 1) == 0 ? redis.url() : redis.tcp_url()};
  const auto limiter = hourly(store);
  check_counted(limiter.check("a"), 1);

  redis.command({"CONFIG", "SET", "timeout", "1"});
  support::wait_until([&] { return clients(redis).empty(); });
  redis.command({"CONFIG", "SET", "timeout", "0"});
  const auto dialled = redis.info("total_connections_received");
  check_counted(limiter.check("a"), 2);
  CHECK(redis.info("total_connections_received") == dialled + 1);
  check_counted(limiter.check("a"), 3);
  CHECK(redis.info("total_connections_received") == dialled + 1);

  redis.kill();
  check_failed(limiter.check("a"), errc::refused);
  redis.start();
  check_counted(limiter.check("a"), 1);
}

TEST_CASE("a socket file that is removed and made again, and one with a space in its name") {
  server redis;
  const auto link = redis.directory() + "/a b.sock";
  std::filesystem::create_symlink(redis.socket_path(), link);
  ratelimit::redis store{"unix://" + redis.directory() + "/a%20b.sock"};
  const auto limiter = hourly(store);
  check_counted(limiter.check("a"), 1);

  std::filesystem::remove(link);
  check_counted(limiter.check("a"), 2);  // the open connection needs no file
  redis.command({"CLIENT", "KILL", "TYPE", "normal"});
  check_failed(limiter.check("a"), errc::refused);
  std::filesystem::create_symlink(redis.socket_path(), link);
  check_counted(limiter.check("a"), 3);
}

TEST_CASE("a store may be built while its server is down") {
  server redis{{.tcp = true}};
  redis.stop();
  ratelimit::redis store{redis.tcp_url()};
  const auto limiter = hourly(store);
  check_failed(limiter.check("a"), errc::refused);
  redis.start();
  check_counted(limiter.check("a"), 1);
}

TEST_CASE("a host's name: every address is tried, and none is refused") {
  server redis{{.tcp = true}};  // on 127.0.0.1 only
  ratelimit::redis store{"redis://localhost:" + std::to_string(redis.port())};
  check_counted(hourly(store).check("a"), 1);
  ratelimit::redis nowhere{"redis://no-such-host.invalid"};
  check_failed(hourly(nowhere).check("a"), errc::refused);
}

// What the kernel then does cannot be shown here: it takes a network that loses packets.
TEST_CASE("over TCP the kernel is told when to give up a peer that vanished") {
  server redis{{.tcp = true}};
  ratelimit::redis store{{.port = redis.port(), .connections = 1}};
  check_counted(hourly(store).check("a"), 1);
  int found = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != redis.port())
      continue;
    const auto option = [fd](int level, int name) {
      int value = -1;
      socklen_t length = sizeof value;
      return ::getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
    };
    if (option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 0) continue;  // the test's own
    ++found;
    CHECK(option(IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) + 3 * option(IPPROTO_TCP, TCP_KEEPINTVL) == 30);
    CHECK(option(IPPROTO_TCP, TCP_KEEPCNT) == 3);
    CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 30'000);
  }
  CHECK(found == 1);
}

TEST_CASE("one check is one command, and repeated checks use one connection") {
  server redis;
  ratelimit::redis store{redis.url()};
  const auto limiter = hourly(store);
  limiter.check("a");
  redis.reset_statistics();
  for (int i = 2; i <= 1000; ++i) check_counted(limiter.check("a"), i);
  CHECK(redis.calls("evalsha") == 999);
  CHECK(redis.calls("eval") == 0);
  CHECK(redis.info("total_connections_received") == 0);
  CHECK(clients(redis).size() == 1);
}

TEST_CASE("reset deletes the key") {
  server redis;
  ratelimit::redis store{redis.url()};
  const auto limiter = hourly(store);
  limiter.check("a", {}, 1000);
  CHECK_FALSE(limiter.check("a").allowed);
  CHECK(limiter.reset("a") == std::error_code{});
  CHECK(keys_in(redis, 0) == 0);
  check_counted(limiter.check("a"), 1);
  redis.kill();
  CHECK(limiter.reset("a") == errc::refused);
}

TEST_CASE("a storm of signals makes no check longer") {
  server redis;
  ratelimit::redis store{redis.url()};
  const auto limiter = hourly(store, 100ms);
  check_counted(limiter.check("a"), 1);
  redis.freeze();
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = [](int) {};  // without SA_RESTART: each one interrupts what is being waited for
  ::sigaction(SIGALRM, &ignore, &before);
  const itimerval often{{0, 1000}, {0, 1000}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const auto d = limiter.check("a");
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  check_failed(d, errc::timeout);
  redis.thaw();
}

TEST_CASE("the server refuses: which kind of refusal it was, and back to normal by itself") {
  server redis{{.tcp = true, .password = "right"}};
  const bool tcp = GENERATE(0, 1) == 1;
  const auto url = [&](const std::string& user_info, const std::string& database) {
    return tcp ? "redis://" + user_info + "@127.0.0.1:" + std::to_string(redis.port()) + "/" + database
               : "unix://" + user_info + "@" + redis.socket_path() + "?db=" + database;
  };
  ratelimit::redis store{url(":right", "0")};
  const auto limiter = hourly(store);
  check_counted(limiter.check("a"), 1);

  SECTION("a wrong password, later corrected") {
    ratelimit::redis other{url(":later", "0")};
    const auto mistaken = hourly(other);
    check_failed(mistaken.check("a"), errc::permission);
    redis.command({"CONFIG", "SET", "requirepass", "later"});
    check_counted(mistaken.check("a"), 2);
  }
  SECTION("no password") {
    ratelimit::redis other{url(":", "0")};
    check_failed(hourly(other).check("a"), errc::permission);
  }
  SECTION("a database there is not") {
    ratelimit::redis other{url(":right", GENERATE(as<std::string>{}, "16", "99"))};
    check_failed(hourly(other).check("a"), errc::database);
    CHECK(clients(redis).size() == 1);
  }
  SECTION("an ACL that forbids the script a command") {
    redis.command({"ACL", "SETUSER", "some", "on", ">pw", "~*", "+evalsha", "+eval"});
    ratelimit::redis other{url("some:pw", "0")};
    const auto limited = hourly(other);
    check_failed(limited.check("a"), errc::permission);
    CHECK(limited.reset("a") == errc::permission);
    redis.command({"ACL", "SETUSER", "some", "+@all"});
    check_counted(limited.check("a"), 2);
  }
  SECTION("an ACL that forbids the key") {
    redis.command({"ACL", "SETUSER", "some", "on", ">pw", "~other*", "+@all"});
    ratelimit::redis other{url("some:pw", "0")};
    check_failed(hourly(other).check("a"), errc::permission);
  }
  SECTION("no memory left") {
    redis.command({"CONFIG", "SET", "maxmemory", "1"});
    redis.reset_statistics();
    check_failed(limiter.check("a"), errc::out_of_memory);
    CHECK(redis.calls("evalsha") == 1);
    CHECK(redis.calls("eval") == 0);
    redis.command({"CONFIG", "SET", "maxmemory", "0"});
    check_counted(limiter.check("a"), 2);
    CHECK(redis.info("total_connections_received") == 0);
  }
  SECTION("a replica") {
    redis.command({"REPLICAOF", "127.0.0.1", "1"});
    check_failed(limiter.check("a"), errc::read_only);
    redis.command({"REPLICAOF", "NO", "ONE"});
    check_counted(limiter.check("a"), 2);
  }
  SECTION("a key of another type") {
    const auto name = redis.command({"KEYS", "*"}).items.at(0).text;
    redis.command({"DEL", name});
    redis.command({"RPUSH", name, "x"});
    check_failed(limiter.check("a"), errc::script);
    redis.command({"DEL", name});
    check_counted(limiter.check("a"), 1);
  }
  SECTION("too many clients") {
    redis.command({"CONFIG", "SET", "maxclients", "2"});
    ratelimit::redis other{url(":right", "0")};
    const auto third = hourly(other);
    check_failed(third.check("a"), errc::too_many_clients);
    ratelimit::redis without_password{redis.url().replace(0, 14, "unix://")};
    for (const auto& d : hourly(without_password).check_many(std::vector<ratelimit::call>{{"a"}, {"b"}, {"c"}})) {
      CHECK((d.error == errc::too_many_clients || d.error == errc::closed));
      CHECK(d.from == source::failed_open);
    }
    check_counted(limiter.check("a"), 2);
    redis.command({"CONFIG", "SET", "maxclients", "100"});
    check_counted(third.check("a"), 3);
  }
}
