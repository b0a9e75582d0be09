// What a check costs on the wire, and what it leaves in the server's script cache.
#include <malloc.h>

#include <set>
#include <string>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;

}  // namespace

// Admitted, refused, a peek, a refund: each is one command once the server knows the script.
TEST_CASE("One check is one command", "[recipes]") {
  on_redis b;
  with_each(b, 100, 600s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    limiter.check("client", "eu");
    b.server.reset_statistics();
    monitor watch{b.server};
    CHECK(allowed(limiter, 120) == 99);
    CHECK(b.server.calls("evalsha") == 120);
    for (const call& what : {peek(), take(0), take(101), refund(3), take(3)}) make(limiter, what);
    CHECK(b.server.calls("evalsha") == 125);
    CHECK(b.server.calls("eval") == 0);
    CHECK(b.server.calls("script|load") == 0);

    int sent = 0;
    for (const auto& one : watch.commands()) {
      if (one.by_script || one.name() == "INFO") continue;
      ++sent;
      CHECK(one.name() == "EVALSHA");
      CHECK(one.words.at(2) == "1");
    }
    CHECK(sent == 125);
  });
  CHECK(b.server.info("total_connections_received") == 1);  // the last monitor's
}

TEST_CASE("A reset is one command", "[recipes]") {
  on_redis b;
  with_each(b, 100, 600s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    limiter.check("client", "eu");
    monitor watch{b.server};
    CHECK_FALSE(limiter.reset("client", "eu"));
    int sent = 0;
    for (const auto& one : watch.commands()) sent += !one.by_script;
    CHECK(sent == 1);
    CHECK(b.keys() == 0);
  });
}

// The texts are constants: values travel as arguments. And neither side's memory grows with the calls.
TEST_CASE("The script cache holds one script for each algorithm", "[recipes]") {
  on_redis b;
  b.server.command({"SCRIPT", "FLUSH"});
  const auto call_all = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string prefix = "prefix " + std::to_string(i % 5) + ":";
      const std::string identity = std::to_string(i % 10'000);
      const std::int64_t limit = 1 + i % 50;
      const auto check = [&](const auto& limiter) {
        const auto d = limiter.check(identity, "eu");
        if (d.error || d.limit != limit) FAIL("call " << i << ": " << d.error.message());
      };
      const auto closed = ratelimit::fail::closed;
      check(ratelimit::sliding_log{b.store,
                                   {.name = "recipe",
                                    .limit = limit,
                                    .window = 1s * limit,
                                    .on_failure = closed,
                                    .deadline = patience,
                                    .prefix = prefix},
                                   b.clock});
      check(ratelimit::sliding_counter{b.store,
                                       {.name = "recipe",
                                        .limit = limit,
                                        .window = 1s * limit,
                                        .on_failure = closed,
                                        .deadline = patience,
                                        .prefix = prefix},
                                       b.clock});
      check(ratelimit::token_bucket{b.store,
                                    {.name = "recipe",
                                     .capacity = limit,
                                     .refill = limit,
                                     .per = 1s * limit,
                                     .on_failure = closed,
                                     .deadline = patience,
                                     .prefix = prefix},
                                    b.clock});
      check(ratelimit::fixed_window{b.store,
                                    {.name = "recipe",
                                     .limit = limit,
                                     .window = 1s * limit,
                                     .on_failure = closed,
                                     .deadline = patience,
                                     .prefix = prefix},
                                    b.clock});
    }
  };
  call_all(0, 2'000);
  const auto before = ::mallinfo2().uordblks;
  call_all(2'000, 10'000);
  const auto after = ::mallinfo2().uordblks;
  CHECK(after < before + 64 * 1024);
  CHECK(b.server.info("number_of_cached_scripts") == 4);
}
