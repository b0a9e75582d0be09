// Faults of other clients, as recipes: what must come of each of them here.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <mutex>
#include <ratelimit/sliding_counter.hpp>
#include <ratelimit/sliding_log.hpp>
#include <ratelimit/token_bucket.hpp>

#include "load.hpp"

using namespace faults;

namespace {

constexpr ratelimit::time_point noon{1'700'049'600s};

ratelimit::fixed_window<ratelimit::redis, ratelimit::manual_clock> daily(ratelimit::redis& store,
                                                                         std::chrono::microseconds patience = 60s) {
  return {store,
          {.name = "t", .limit = limit, .window = 24h, .on_failure = fail::open, .deadline = patience},
          ratelimit::manual_clock{noon}};
}

template <class Use>
void with_each_algorithm(ratelimit::redis& store, const Use& use) {
  const ratelimit::manual_clock clock{noon};
  constexpr auto closed = fail::closed;
  use(ratelimit::sliding_log{
      store,
      {.name = "log", .limit = 5, .window = 1h, .on_failure = closed, .deadline = 60s, .deny_cache = 100},
      clock});
  use(ratelimit::sliding_log{store,
                             {.name = "log",
                              .limit = 5,
                              .window = 1h,
                              .storage = ratelimit::log_storage::compact,
                              .on_failure = closed,
                              .deadline = 60s,
                              .deny_cache = 100},
                             clock});
  use(ratelimit::sliding_counter{
      store,
      {.name = "counter", .limit = 5, .window = 1h, .on_failure = closed, .deadline = 60s, .deny_cache = 100},
      clock});
  use(ratelimit::token_bucket{store,
                              {.name = "bucket",
                               .capacity = 5,
                               .refill = 5,
                               .per = 1h,
                               .on_failure = closed,
                               .deadline = 60s,
                               .deny_cache = 100},
                              clock});
  use(ratelimit::fixed_window{
      store,
      {.name = "window", .limit = 5, .window = 1h, .on_failure = closed, .deadline = 60s, .deny_cache = 100},
      clock});
}

// A socket that listens and never accepts, with no room for one connection more.
class full_listener {
 public:
  full_listener(int family, const sockaddr* address, socklen_t size) {
    fd_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(fd_, address, size) != 0 || ::listen(fd_, 0) != 0) throw std::runtime_error{"cannot listen"};
    sockaddr_storage own{};
    socklen_t own_size = sizeof own;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &own_size);
    if (family == AF_INET) port_ = ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
    for (int i = 0; i < 3; ++i) {
      const int client = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      ::connect(client, reinterpret_cast<const sockaddr*>(&own), own_size);
      clients_.push_back(client);
    }
  }
  full_listener(const full_listener&) = delete;
  full_listener& operator=(const full_listener&) = delete;
  ~full_listener() {
    for (const int client : clients_) ::close(client);
    ::close(fd_);
  }
  int port() const { return port_; }

 private:
  int fd_ = -1;
  int port_ = 0;
  std::vector<int> clients_{};
};

}  // namespace

TEST_CASE("a pipeline of ten right after SCRIPT FLUSH: ten answers in order, and each counted once") {
  server redis;
  ratelimit::redis store{options(redis)};
  const auto limiter = daily(store);
  REQUIRE(limiter.check("a").used == 1);
  redis.command({"SCRIPT", "FLUSH"});
  redis.reset_statistics();
  const auto decided = limiter.check_many(std::vector<ratelimit::call>(10, {"a"}));
  REQUIRE(decided.size() == 10);
  for (std::size_t i = 0; i < decided.size(); ++i) {
    CHECK(decided[i].from == source::redis);
    CHECK(decided[i].used == 2 + static_cast<std::int64_t>(i));
  }
  CHECK(redis.calls("evalsha") == 10);
  CHECK(redis.calls("eval") == 10);
  CHECK(limiter.peek("a").used == 11);
}

TEST_CASE("a thousand checks of a server that is away, stopped, or deaf: nothing of them is counted later") {
  server redis;
  const std::string how = GENERATE("stopped", "frozen");
  CAPTURE(how);
  ratelimit::redis store{options(redis)};
  REQUIRE(daily(store).check("a").used == 1);
  if (how == "stopped") {
    redis.stop();
  } else {
    redis.freeze();
  }
  std::vector<clock::duration> took;
  for (int i = 0; i < 1000; ++i) {
    const auto from = clock::now();
    const auto d = daily(store, 100ms).check("a");
    took.push_back(clock::now() - from);
    CHECK(d.error == (how == "stopped" ? errc::refused : errc::timeout));
    CHECK(d.from == source::failed_open);
  }
  std::sort(took.begin(), took.end());
  const auto us = [](clock::duration d) {
    return static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
  };
  std::printf("%s, 1000 checks of 100 ms: median %lld us, longest %lld us\n", how.c_str(), us(took[500]),
              us(took.back()));
  CHECK(took.back() < 10s);
  if (how == "stopped") {
    redis.start();
    support::wait_until([&] { return daily(store).check("b").counted(); });
    CHECK(daily(store).peek("a").used == 0);  // a new server
  } else {
    redis.thaw();
    support::wait_until([&] { return daily(store).check("b").counted(); });
    // Those that opened the breaker had been sent, and the probes; no other.
    CHECK(daily(store).peek("a").used <= 1 + 5 + 10);
  }
}

TEST_CASE("a listener with no room: back by the deadline") {
  const bool tcp = GENERATE(true, false);
  CAPTURE(tcp);
  server redis;  // for its directory
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_un file{};
  file.sun_family = AF_UNIX;
  const std::string path = redis.directory() + "/full";
  std::strncpy(file.sun_path, path.c_str(), sizeof file.sun_path - 1);
  const full_listener full = tcp ? full_listener{AF_INET, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback}
                                 : full_listener{AF_UNIX, reinterpret_cast<sockaddr*>(&file), sizeof file};
  ratelimit::redis_options to;
  if (tcp) {
    to.port = full.port();
  } else {
    to.unix_path = path;
  }
  ratelimit::redis store{to};
  const auto from = clock::now();
  for (int i = 0; i < 10; ++i) CHECK(daily(store, 50ms).check("a").error == errc::timeout);
  CHECK(clock::now() - from < 10s);
}

TEST_CASE("no memory left: each algorithm asks once, says so, and remembers nothing of it") {
  server redis;
  ratelimit::redis store{options(redis)};
  with_each_algorithm(store, [&](const auto& limiter) {
    INFO(limiter.check("a").limit_name);
    redis.command({"CONFIG", "SET", "maxmemory", "1"});
    redis.reset_statistics();
    const auto d = limiter.check("a");
    CHECK_FALSE(d.allowed);
    CHECK(d.from == source::failed_closed);
    CHECK(d.error == errc::out_of_memory);
    CHECK_FALSE(d.retry_after.has_value());
    CHECK(redis.calls("evalsha") + redis.calls("eval") == 1);
    redis.command({"CONFIG", "SET", "maxmemory", "0"});
    for (int used = 2; used <= 5; ++used) {
      const auto now = limiter.check("a");
      CHECK(now.from == source::redis);
      CHECK(now.allowed);
      CHECK(now.used == used);
    }
    CHECK_FALSE(limiter.check("a").allowed);
  });
}

TEST_CASE("keys that are evicted are fresh quotas, never errors or negative numbers") {
  server redis;
  ratelimit::redis store{options(redis)};
  with_each_algorithm(store, [&](const auto& limiter) {
    for (int used = 1; used <= 5; ++used) CHECK(limiter.check("evicted").used == used);
  });
  redis.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const auto room = redis.info("used_memory") + 512 * 1024;
  redis.command({"CONFIG", "SET", "maxmemory", std::to_string(room)});
  for (int i = 0; i < 2000; ++i) redis.command({"SET", "filler " + std::to_string(i), std::string(2000, 'x')});
  REQUIRE(redis.info("evicted_keys") > 0);
  with_each_algorithm(store, [&](const auto& limiter) {
    const auto d = limiter.peek("evicted");
    CHECK(d.from == source::redis);
    CHECK((d.used == 0 || d.used == 5));
    CHECK(d.remaining == 5 - d.used);
    CHECK(limiter.check("new").used == 1);
  });
}

TEST_CASE("checks, peeks, resets, pipelines, refusals and errors: no connection more than the pool's") {
  server redis;
  ratelimit::redis store{options(redis)};
  const auto limiter = daily(store);
  const ratelimit::fixed_window small{
      store, {.name = "small", .limit = 1, .window = 24h, .on_failure = fail::closed, .deadline = 60s}};
  limiter.check("wrong type");
  const auto key = redis.command({"KEYS", "*wrong*"}).items.at(0).text;
  redis.command({"DEL", key});
  redis.command({"RPUSH", key, "x"});
  const auto before = redis.info("total_connections_received");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, who = "mixed " + std::to_string(t)] {
      small.check(who);
      for (int i = 0; i < 500; ++i) {
        if (limiter.check(who).used != 1 || limiter.peek(who).used != 1) ++wrong;
        if (limiter.check_many(std::vector<ratelimit::call>(3, {who})).back().used != 4) ++wrong;
        if (limiter.reset(who) || small.check(who).allowed) ++wrong;
        if (limiter.check("wrong type").error != errc::script) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(redis.info("total_connections_received") <= before + 3);
  CHECK(redis.info("connected_clients") <= 1 + 4);
}

TEST_CASE("a server that comes late, and one that comes and goes: it is asked again by itself, by one at a time") {
  server redis;
  redis.stop();
  std::mutex mutex;
  int probing = 0, most = 0;
  auto to = options(redis);
  to.observer.breaker = [&](const ratelimit::breaker_change& c) {
    const std::lock_guard lock{mutex};
    probing = c.state == ratelimit::breaker_state::half_open ? probing + 1 : 0;
    most = std::max(most, probing);
  };
  ratelimit::redis store{to};
  std::atomic<bool> done{false};
  std::atomic<long> counted{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 30; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const auto d = daily(store).check("a");
        if (d.counted()) ++counted;
        if (!d.allowed || d.counted() == static_cast<bool>(d.error)) ++wrong;
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(200ms);
    redis.start();
    const long before = counted;
    support::wait_until([&] { return counted > before + 100; });
    redis.kill();
  }
  done = true;
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(most == 1);
}
