// Nobody could be asked: the outcome chosen for that, marked as such, and no numbers made up.
#include <string>

#include "rows.hpp"
#include "support/wait.hpp"

namespace {

using namespace recipes;
using ratelimit::errc;
using ratelimit::fail;
using ratelimit::source;

// Cannot be asked, for a reason of the test's choice.
struct unreachable {
  static constexpr source origin = source::redis;
  errc why;
  ratelimit::outcome run(const ratelimit::request&, const ratelimit::deadline&) { return {.error = why}; }
};

// The four limiters under one outcome of an outage.
template <class Backend, class Use>
void with_each_failing(Backend& b, fail mode, bool shadow, const Use& use) {
  use(ratelimit::sliding_log{
      b.store,
      {.name = "log", .limit = 5, .window = 60s, .on_failure = mode, .deadline = patience, .shadow = shadow},
      b.clock});
  use(ratelimit::sliding_counter{
      b.store,
      {.name = "counter", .limit = 5, .window = 60s, .on_failure = mode, .deadline = patience, .shadow = shadow},
      b.clock});
  use(ratelimit::token_bucket{b.store,
                              {.name = "bucket",
                               .capacity = 5,
                               .refill = 5,
                               .per = 60s,
                               .on_failure = mode,
                               .deadline = patience,
                               .shadow = shadow},
                              b.clock});
  use(ratelimit::fixed_window{
      b.store,
      {.name = "window", .limit = 5, .window = 60s, .on_failure = mode, .deadline = patience, .shadow = shadow},
      b.clock});
}

void check_uncounted(const ratelimit::decision& d, fail mode, errc why) {
  CHECK(d.allowed == (mode == fail::open));
  CHECK(static_cast<bool>(d) == d.allowed);
  CHECK(d.from == (mode == fail::open ? source::failed_open : source::failed_closed));
  CHECK(d.error == why);
  CHECK(d.error.category() == ratelimit::error_category());
  CHECK_FALSE(d.counted());
  CHECK(d.limit == 5);
  CHECK(d.window == 60s);
  CHECK(d.at == w0);
  CHECK_FALSE(d.would_deny);
  // Neither -1 nor limit - 1: nobody knows.
  CHECK(d.used == 0);
  CHECK(d.remaining == 0);
  CHECK_FALSE(d.retry_after.has_value());
  CHECK(d.reset_after == 0us);
  CHECK(d.full_after == 0us);
}

}  // namespace

TEST_CASE("Each reason for an outage reaches the caller", "[recipes]") {
  struct {
    unreachable store;
    manual_clock clock{w0};
  } b{};
  for (const errc why :
       {errc::timeout, errc::refused, errc::closed, errc::protocol, errc::permission, errc::out_of_memory,
        errc::read_only, errc::loading, errc::busy, errc::cluster, errc::script, errc::too_many_clients}) {
    b.store.why = why;
    for (const fail mode : {fail::open, fail::closed}) {
      with_each_failing(b, mode, false, [&](const auto& limiter) {
        // A cost above the limit too: an outage's outcome, not the limit's.
        for (const call& what : {take(), take(6), take(0), peek(), refund(2)})
          check_uncounted(make(limiter, what), mode, why);
        CHECK(limiter.reset("client", "eu") == why);
      });
    }
  }
}

TEST_CASE("A server that is gone is an outage, and back again it counts", "[recipes]") {
  support::server server;
  struct {
    ratelimit::redis store;
    manual_clock clock{w0};
  } b{.store = ratelimit::redis{server.url()}};
  for (const fail mode : {fail::open, fail::closed}) {
    INFO("fail::" << (mode == fail::open ? "open" : "closed"));
    with_each_failing(b, mode, false, [&](const auto& limiter) {
      // The store lets a server that was gone be for a moment.
      support::wait_until([&] { return limiter.peek("client").from == source::redis; });
      const auto d = limiter.check("client");
      CHECK(d.from == source::redis);
      CHECK(d.used == 1);
    });
    server.stop();
    for (int i = 0; i < 3; ++i)
      with_each_failing(b, mode, false, [&](const auto& limiter) {
        check_uncounted(limiter.check("client"), mode, errc::refused);
        check_uncounted(limiter.peek("client"), mode, errc::refused);
        check_uncounted(limiter.refund("client", {}, 1), mode, errc::refused);
        CHECK(limiter.reset("client") == errc::refused);
      });
    server.start();
  }
}

// Fail-closed in shadow mode lets the call pass, and says what it would have been.
TEST_CASE("An outage in shadow mode denies nobody", "[recipes]") {
  struct {
    unreachable store{errc::timeout};
    manual_clock clock{w0};
  } b{};
  with_each_failing(b, fail::closed, true, [&](const auto& limiter) {
    const auto d = limiter.check("client");
    CHECK(d.allowed);
    CHECK(d.would_deny);
    CHECK(d.from == source::failed_closed);
    CHECK(d.error == errc::timeout);
    CHECK_FALSE(d.retry_after.has_value());
  });
}

// A key of another program's under the limiter's own name is an error with a name, not a decision.
TEST_CASE("A key of the wrong type is a script error", "[recipes]") {
  on_redis b;
  with_each(b, 5, 60s, [&](const auto& limiter, const std::string& tag) {
    INFO(tag);
    b.server.command({"RPUSH", "ratelimit:" + tag + ":recipe:{client}:", "not ours"});
    const auto d = limiter.check("client");
    CHECK_FALSE(d.allowed);
    CHECK(d.from == source::failed_closed);
    CHECK(d.error == errc::script);
    CHECK_FALSE(limiter.reset("client"));
    CHECK(limiter.check("client").allowed);
  });
}
