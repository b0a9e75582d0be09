// The server dies, stops, or throws its clients out, while eight threads check.
#include <filesystem>

#include "load.hpp"

using namespace faults;

TEST_CASE("killed with SIGKILL and restarted") {
  server redis{{.config = {"--appendonly", "yes"}}};  // so that what was counted outlives it
  const auto seen = under_load("killed -9 and restarted", redis, options(redis), [&](load& traffic) {
    for (int i = 0; i < 2; ++i) {
      redis.kill();
      traffic.wait_for_errors();
      redis.start();
      traffic.wait_for_answers(5);
    }
  });
  CHECK(has(seen, errc::refused));
  CHECK(only(seen, {errc::refused, errc::closed, errc::timeout, errc::loading}));
}

TEST_CASE("stopped with SIGSTOP and continued") {
  server redis;
  const auto seen = under_load("SIGSTOP, SIGCONT", redis, options(redis), [&](load&) {
    redis.freeze();
    a_while();
    redis.thaw();
  });
  CHECK(only(seen, {errc::timeout}));
  CHECK(has(seen, errc::timeout));
}

TEST_CASE("CLIENT PAUSE") {
  server redis;
  const auto seen = under_load("CLIENT PAUSE", redis, options(redis), [&](load&) {
    redis.command({"CLIENT", "PAUSE", "500"});
    a_while();
  });
  CHECK(only(seen, {errc::timeout}));
  CHECK(has(seen, errc::timeout));
}

TEST_CASE("CLIENT KILL of all, again and again") {
  server redis;
  const auto seen = under_load("CLIENT KILL of all, 50 times", redis, options(redis), [&](load&) {
    for (int i = 0; i < 50; ++i) {
      redis.command({"CLIENT", "KILL", "TYPE", "normal"});
      std::this_thread::sleep_for(5ms);
    }
  });
  CHECK(only(seen, {errc::closed, errc::timeout}));
}

TEST_CASE("SCRIPT FLUSH, again and again") {
  server redis;
  const auto seen = under_load("SCRIPT FLUSH, 50 times", redis, options(redis), [&](load&) {
    for (int i = 0; i < 50; ++i) {
      redis.command({"SCRIPT", "FLUSH"});
      std::this_thread::sleep_for(5ms);
    }
  });
  CHECK(only(seen, {errc::timeout}));  // the machine's, when it is busy
}

TEST_CASE("the socket's file removed and made again") {
  server redis;
  const std::string link = redis.directory() + "/link";
  std::filesystem::create_symlink(redis.socket_path(), link);
  auto to = options(redis);
  to.unix_path = link;
  const auto seen = under_load("socket file removed and recreated", redis, to, [&](load& traffic) {
    std::filesystem::remove(link);
    redis.command({"CLIENT", "KILL", "TYPE", "normal"});
    traffic.wait_for_errors();
    a_while();
    std::filesystem::create_symlink(redis.socket_path(), link);
  });
  CHECK(has(seen, errc::refused));
  CHECK(only(seen, {errc::refused, errc::closed, errc::timeout}));
}
