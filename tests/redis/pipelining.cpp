// Several threads on one connection: what each of them hears when answers are slow, late, malformed, or do not come.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
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

// One server thread answers `identity` with that many units used, and holds the answers back while the gate is shut.
struct gated_server {
  std::atomic<bool> open{true};
  std::mutex mutex{};
  std::string special{};  // the identity that gets `instead`
  bytes instead{""};
  fake_server server{[this](const words& said) {
    const std::string& key = said.at(3);  // ratelimit:window:t:{identity}:
    const std::string identity = key.substr(key.find('{') + 1, key.find('}') - key.find('{') - 1);
    while (!open) std::this_thread::sleep_for(1ms);
    const std::lock_guard lock{mutex};
    if (identity == special) return instead;
    return bytes{"*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:" + identity + "\r\n"};
  }};
  ratelimit::redis store{{.unix_path = server.socket_path(), .connections = 1}};

  ratelimit::decision check(int identity, std::chrono::microseconds deadline = 60s) {
    return ratelimit::fixed_window<ratelimit::redis>{
        store, {.name = "t", .limit = 1000, .window = 60s, .on_failure = fail::open, .deadline = deadline}}
        .check(std::to_string(identity));
  }
  std::future<ratelimit::decision> start(int identity, std::chrono::microseconds deadline = 60s) {
    return std::async(std::launch::async, [=, this] { return check(identity, deadline); });
  }
  // A call whose command has arrived, and whose answer waits for the gate.
  std::future<ratelimit::decision> start_held(int identity, std::chrono::microseconds deadline = 60s) {
    open = false;
    const auto before = server.heard().size();
    auto made = start(identity, deadline);
    support::wait_until([&] { return server.heard().size() > before; });
    return made;
  }
  // Calls one after the other, behind one that waits for its answer. Each that finds as many queued, itself among them,
  // as are under way sends them: behind 1, that is call 2 for itself, 4 for 3 and 4, 8 for 5 to 8. That they have got
  // so far cannot be seen from outside.
  std::vector<std::future<ratelimit::decision>> start_behind(int from, int to) {
    std::vector<std::future<ratelimit::decision>> made;
    for (int i = from; i <= to; ++i) {
      made.push_back(start(i));
      std::this_thread::sleep_for(100ms);
    }
    return made;
  }
};

void check_answered(const ratelimit::decision& d, int identity) {
  CHECK(d.error == std::error_code{});
  CHECK(d.from == source::redis);
  CHECK(d.used == identity);
  CHECK(d.remaining == 1000 - identity);
}

void check_failed(const ratelimit::decision& d, errc why) {
  CHECK(d.error == why);
  CHECK(d.from == source::failed_open);
  CHECK_FALSE(d.counted());
}

// Encryption that changes nothing, and runs out of memory when it is told to.
struct forgetful final : ratelimit::detail::tls_session {
  explicit forgetful(std::atomic<bool>& no_memory) : no_memory_{no_memory} {}

  step shake_hands(std::string&) override { return step::done; }
  bool put(std::string_view come) override {
    come_.append(come);
    return true;
  }
  bool encrypt(std::string_view plain, std::string& out) override {
    if (no_memory_.exchange(false)) throw std::bad_alloc{};
    out.append(plain);
    return true;
  }
  std::error_code decrypt(char* into, std::size_t room, std::size_t& got) override {
    got = come_.copy(into, room);
    come_.erase(0, got);
    return {};
  }
  bool has_leftover() const noexcept override { return !come_.empty(); }

 private:
  std::atomic<bool>& no_memory_;
  std::string come_{};
};

struct forgetful_engine final : ratelimit::detail::tls_engine {
  mutable std::atomic<bool> no_memory{false};
  std::unique_ptr<ratelimit::detail::tls_session> begin(const std::string&) const override {
    return std::make_unique<forgetful>(no_memory);
  }
};

}  // namespace

TEST_CASE("memory that runs out while a call is sent costs that connection, and no call after it") {
  support::server redis{{.tcp = true}};
  const auto engine = std::make_shared<forgetful_engine>();
  ratelimit::redis store{{.host = "127.0.0.1", .port = redis.port(), .connections = 1, .tls = engine}};
  const ratelimit::fixed_window limiter{
      store, {.name = "t", .limit = 10, .window = 24h, .on_failure = fail::closed, .deadline = 60s}};
  CHECK(limiter.check("a").used == 1);
  engine->no_memory = true;
  // Nothing of it was sent: it is put to the next connection.
  const auto d = limiter.check("a");
  CHECK(d.from == source::redis);
  CHECK(d.error == std::error_code{});
  CHECK(d.used == 2);
  CHECK_FALSE(engine->no_memory);
  CHECK(limiter.check("a").used == 3);
}

TEST_CASE("calls that wait together go out together, and each has its own answer") {
  gated_server s;
  auto first = s.start_held(1);
  auto others = s.start_behind(2, 20);
  CHECK(s.server.heard().size() == 1);
  s.open = true;
  check_answered(first.get(), 1);
  for (int i = 2; i <= 20; ++i) check_answered(others[static_cast<std::size_t>(i - 2)].get(), i);
  CHECK(s.server.connections() == 1);
  CHECK(s.server.heard().size() == 20);
}

TEST_CASE("the caller that reads for all leaves at its deadline, and another one reads on") {
  gated_server s;
  auto first = s.start_held(1, 500ms);
  auto others = s.start_behind(2, 5);
  check_failed(first.get(), errc::timeout);
  s.open = true;
  for (int i = 2; i <= 5; ++i) check_answered(others[static_cast<std::size_t>(i - 2)].get(), i);
  check_answered(s.check(6), 6);
  CHECK(s.server.connections() == 1);  // its late answer was read and dropped
}

TEST_CASE("a call that leaves before it was sent is never sent") {
  gated_server s;
  auto first = s.start_held(1);
  auto beside = s.start_behind(2, 2);
  check_failed(s.check(3, 50ms), errc::timeout);
  s.open = true;
  check_answered(first.get(), 1);
  check_answered(beside[0].get(), 2);
  check_answered(s.check(4), 4);
  CHECK(s.server.heard().size() == 3);
  CHECK(s.server.connections() == 1);
}

TEST_CASE("a call that leaves after it was sent: its answer is nobody's") {
  gated_server s;
  auto first = s.start_held(1);
  auto second = s.start_behind(2, 2);
  auto leaving = s.start(3, 400ms);
  std::this_thread::sleep_for(100ms);
  auto fourth = s.start_behind(4, 4);
  {
    // The first answer comes, and then no other for a time: 2, 3 and 4 have been sent by then.
    const std::lock_guard lock{s.mutex};
    s.special = "2";
    s.instead = bytes{"*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:2\r\n", false, 30ms};  // byte by byte: 0.8 s
  }
  s.open = true;
  check_answered(first.get(), 1);
  check_failed(leaving.get(), errc::timeout);
  check_answered(second[0].get(), 2);
  check_answered(fourth[0].get(), 4);  // which waited behind the one that is nobody's
  check_answered(s.check(5), 5);
  CHECK(s.server.connections() == 1);
}

TEST_CASE("a connection that breaks: what was sent on it has failed, and what was not is sent on the next") {
  gated_server s;
  s.special = "1";
  s.instead = bytes{"", true};
  auto first = s.start_held(1);
  auto sent = s.start_behind(2, 4);
  auto queued = s.start_behind(5, 7);
  s.open = true;
  check_failed(first.get(), errc::closed);
  for (auto& one : sent) check_failed(one.get(), errc::closed);
  for (int i = 5; i <= 7; ++i) check_answered(queued[static_cast<std::size_t>(i - 5)].get(), i);
  CHECK(s.server.connections() == 2);
  CHECK(s.server.heard().size() == 4);  // what came after the first was not read
}

TEST_CASE("who waited behind answers that are nobody's any more is sent on the next connection") {
  gated_server s;
  auto first = s.start_held(1, 600ms);
  auto second = s.start(2, 500ms);
  std::this_thread::sleep_for(100ms);
  auto queued = s.start(3);  // behind two that are under way
  check_failed(first.get(), errc::timeout);
  check_failed(second.get(), errc::timeout);
  s.open = true;
  check_answered(queued.get(), 3);
  CHECK(s.server.connections() == 2);
}

TEST_CASE("an answer that is none: whoever was to be answered after it has failed too") {
  gated_server s;
  const std::string malformed = GENERATE("+OK\r\n", "?\r\n");
  CAPTURE(malformed);
  s.special = "2";
  s.instead = bytes{malformed};
  auto first = s.start_held(1);
  auto others = s.start_behind(2, 2);
  auto later = s.start_behind(3, 4);
  s.open = true;
  check_answered(first.get(), 1);
  check_failed(others[0].get(), errc::protocol);
  for (auto& one : later) check_failed(one.get(), errc::protocol);
  check_answered(s.check(5), 5);
  CHECK(s.server.connections() == 2);
}

TEST_CASE("pipelines and single calls of many threads on one connection keep apart") {
  support::server redis;
  ratelimit::redis store{{.unix_path = redis.socket_path(), .connections = 1}};
  const ratelimit::fixed_window<ratelimit::redis> limiter{
      store, {.name = "t", .limit = 1'000'000, .window = 24h, .on_failure = fail::closed, .deadline = 60s}};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::string who = "caller " + std::to_string(t);
      const std::vector<ratelimit::call> calls(static_cast<std::size_t>(t) * 7, ratelimit::call{who});
      for (std::int64_t used = 0; used < 1500;) {
        if (limiter.check(who).used != ++used) ++wrong;
        for (const auto& d : limiter.check_many(calls))
          if (d.used != ++used) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(redis.info("total_connections_received") == 2);  // the observer's and ours
}
