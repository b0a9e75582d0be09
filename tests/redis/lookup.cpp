// A host's name whose lookup takes its time: what the deadline bounds, and what it does not.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include <ratelimit/fixed_window.hpp>
#include <ratelimit/redis.hpp>

#include "catch.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;
using std::chrono::steady_clock;

constexpr char slow_name[] = "slow.test";
constexpr auto lookup_time = 5s;
std::atomic<int> lookups{0};
std::atomic<int> found_slowly{0};

ratelimit::decision check(ratelimit::redis& store, const std::string& identity, std::chrono::microseconds deadline) {
  return ratelimit::fixed_window{
      store, {.name = "t", .limit = 10, .window = 24h, .on_failure = fail::open, .deadline = deadline}}
      .check(identity);
}

}  // namespace

// This program's own, in the system's place: one name is found slowly, at 127.0.0.1.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* wanted, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host != nullptr && std::strcmp(host, slow_name) == 0 && (wanted->ai_flags & AI_NUMERICHOST) == 0) {
    ++lookups;
    std::this_thread::sleep_for(lookup_time);
    ++found_slowly;
    return real("127.0.0.1", port, wanted, found);
  }
  return real(host, port, wanted, found);
}

TEST_CASE("the lookup of a name is not bounded by the deadline of who waits in it, and by that of everybody else") {
  support::server redis{{.tcp = true}};
  ratelimit::redis store{{.host = slow_name, .port = redis.port(), .connections = 1}};
  lookups = 0;
  found_slowly = 0;
  const auto began = steady_clock::now();
  auto first = std::async(std::launch::async, [&] {
    const auto d = check(store, "first", 25ms);
    return std::pair{d, steady_clock::now() - began};
  });
  support::wait_until([] { return lookups == 1; });

  // Those who find the connection being dialled do not wait for it.
  for (int i = 0; i < 3; ++i) {
    const auto d = check(store, "other", 25ms);
    CHECK(found_slowly == 0);
    CHECK(d.error == errc::timeout);
    CHECK(d.from == source::failed_open);
    CHECK(d.allowed);
    CHECK_FALSE(d.counted());
  }

  const auto [d, took] = first.get();
  CHECK(took >= lookup_time);
  CHECK(d.error == errc::timeout);
  CHECK(d.from == source::failed_open);
  CHECK(d.allowed);
  CHECK_FALSE(d.counted());
  CHECK(lookups == 1);
  CHECK(found_slowly == 1);
}

TEST_CASE("an address is not looked up") {
  support::server redis{{.tcp = true}};
  ratelimit::redis store{{.host = "127.0.0.1", .port = redis.port()}};
  lookups = 0;
  const auto d = check(store, "a", 5s);
  CHECK(d.error == std::error_code{});
  CHECK(d.used == 1);
  CHECK(lookups == 0);
}
