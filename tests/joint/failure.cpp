// A combination whose store cannot be asked.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "joint/stores.hpp"

using namespace joint;

namespace {

struct on_broken {
  broken store{};
  manual_clock clock{midnight};
};

std::vector<source> sources(const auto& d) {
  std::vector<source> all;
  for (const decision& part : d.parts) all.push_back(part.from);
  return all;
}

}  // namespace

TEST_CASE("one part that fails closed closes the combination, wherever it stands", "[joint]") {
  on_broken b;
  b.store.joins = GENERATE(true, false);
  const setup open{.on_failure = fail::open}, closed{.on_failure = fail::closed}, local{.on_failure = fail::local};
  std::vector<setup> modes{open, closed, local};
  for (int i = 0; i < 3; ++i) {
    std::rotate(modes.begin(), modes.begin() + 1, modes.end());
    const all_of quota{window_of(b, "a", 1, 1h, modes[0]), log_of(b, "b", 1, 1h, modes[1]),
                       bucket_of(b, "c", 1, 1h, modes[2])};
    for (const auto& d : {quota.check("client"), quota.peek("client"), quota.refund("client", {}, 1)}) {
      CHECK_FALSE(d.allowed);
      CHECK(d.from == source::failed_closed);
      CHECK(d.error == errc::timeout);
      CHECK(d.limit_name == "a");
      CHECK_FALSE(d.counted());
      CHECK(d.retry_after == std::nullopt);
      CHECK((d.at == midnight));
      CHECK(sources(d) == std::vector(3, source::failed_closed));
      for (const decision& part : d.parts) {
        CHECK_FALSE(part.allowed);
        CHECK(part.error == errc::timeout);
        CHECK(part.limit == 1);
        CHECK(part.used == 0);
      }
    }
    CHECK(quota.reset("client") == errc::timeout);
  }
}

TEST_CASE("parts that fail open let the call pass", "[joint]") {
  on_broken b;
  b.store.joins = GENERATE(true, false);
  b.store.why = errc::out_of_memory;
  const all_of quota{window_of(b, "a", 1, 1h, {.on_failure = fail::open}),
                     log_of(b, "b", 1, 1h, {.on_failure = fail::open})};
  for (int i = 0; i < 3; ++i) {
    const auto d = quota.check("client", {}, 5);
    CHECK(d.allowed);
    CHECK(d.from == source::failed_open);
    CHECK(d.error == errc::out_of_memory);
    CHECK_FALSE(d.counted());
    CHECK(sources(d) == std::vector(2, source::failed_open));
  }
}

TEST_CASE("parts that fail local count in this process, all or nothing", "[joint]") {
  on_broken b;
  b.store.joins = GENERATE(true, false);
  const all_of quota{window_of(b, "wide", 10, 1h, {.on_failure = fail::local, .local_share = 0.5}),
                     log_of(b, "open", 1, 1h, {.on_failure = fail::open}),
                     counter_of(b, "narrow", 4, 1h, {.on_failure = fail::local, .local_share = 0.5})};
  for (std::int64_t used = 1; used <= 2; ++used) {
    const auto d = quota.check({.identity = "client", .request_id = used == 1 ? "r1" : ""});
    CHECK(d.allowed);
    CHECK(d.from == source::local);
    CHECK(d.error == errc::timeout);
    CHECK(d.limit_name == "narrow");  // the smallest share left; what nobody counted has none
    CHECK(sources(d) == std::vector{source::local, source::failed_open, source::local});
    CHECK(d.parts[0].limit == 5);
    CHECK(d.parts[0].used == used);
    CHECK(d.parts[2].limit == 2);
    CHECK(d.parts[2].used == used);
  }
  CHECK(quota.check({.identity = "client", .request_id = "r1"}).parts[2].used == 2);  // once
  for (int i = 0; i < 2; ++i) {
    const auto denied = quota.check({.identity = "client", .request_id = "r2"});
    CHECK_FALSE(denied.allowed);
    CHECK(denied.from == source::local);
    CHECK(denied.limit_name == "narrow");
    CHECK((denied.retry_after == 1h + 1us));
    CHECK(denied.parts[0].allowed);
    CHECK(denied.parts[0].used == 2);  // given back
    CHECK(denied.parts[1].from == source::failed_open);
  }
  const auto never = quota.check("client", {}, 3);
  CHECK_FALSE(never.allowed);
  CHECK(never.retry_after == std::nullopt);
  CHECK(never.parts[0].used == 2);
  CHECK(quota.refund("client", {}, 1).parts[0].used == 1);
  CHECK(quota.check({.identity = "client", .request_id = "r2"}).parts[0].used == 2);
  CHECK(quota.peek("client").parts[2].used == 2);
  CHECK(quota.refund("client", {}, 1, midnight - 1h).parts[0].used == 2);  // of a window gone by
}

TEST_CASE("what was counted in this process is forgotten when the store answers again", "[joint]") {
  on_memory m;
  bool down = true;
  apart<memory> store{m.store};
  store.meddle = [&](request&) -> std::optional<outcome> {
    if (down) return outcome{.error = errc::refused};
    return std::nullopt;
  };
  struct {
    apart<memory>& store;
    manual_clock clock;
  } b{store, m.clock};
  const all_of quota{window_of(b, "a", 2, 24h, {.on_failure = fail::local}),
                     window_of(b, "b", 2, 24h, {.on_failure = fail::local})};
  CHECK(quota.check("client").parts[1].used == 1);
  CHECK(quota.check("client").parts[1].used == 2);
  CHECK(quota.check("client").from == source::local);
  down = false;
  const auto d = quota.check("client");
  CHECK(d.from == source::memory);
  CHECK(d.parts[0].used == 1);
  CHECK(d.error == std::error_code{});
  down = true;
  CHECK(quota.check("client").parts[0].used == 1);
}

TEST_CASE("what was counted in this process stays while the store answers without counting", "[joint]") {
  on_memory m;
  bool down = true;
  apart<memory> store{m.store};
  store.meddle = [&](request&) -> std::optional<outcome> {
    if (down) return outcome{.error = errc::refused};
    return std::nullopt;
  };
  struct {
    apart<memory>& store;
    manual_clock clock;
  } b{store, m.clock};
  const auto first = window_of(b, "a", 2, 24h, {.on_failure = fail::local});
  const auto second = window_of(b, "b", 2, 24h, {.on_failure = fail::local});
  const all_of quota{first, second};
  CHECK(quota.check("client").parts[1].used == 1);
  CHECK(quota.check("client").parts[1].used == 2);
  const auto is_still_full = [&] {
    down = true;
    const auto d = quota.check("client");
    return !d.allowed && d.from == source::local && d.parts[0].used == 2 && d.parts[1].used == 2;
  };
  down = false;
  CHECK(quota.peek("client").parts[0].used == 0);
  CHECK(quota.check("other").parts[0].used == 1);
  CHECK(is_still_full());
  // Refused by the second, so that the first has counted nothing either.
  down = false;
  CHECK(second.check("client").used == 1);
  CHECK(second.check("client").used == 2);
  CHECK_FALSE(quota.check("client").allowed);
  down = true;
  CHECK(quota.check("client").parts[0].used == 2);
  down = false;
  CHECK(quota.reset("client") == std::error_code{});
  down = true;
  CHECK(quota.check("client").parts[0].used == 1);
}

TEST_CASE("the deadline is the shortest of the parts'", "[joint]") {
  on_broken b;
  b.store.joins = GENERATE(true, false);
  const all_of quota{window_of(b, "a", 1, 1h, {.deadline = 3s}), window_of(b, "b", 1, 1h, {.deadline = 2s}),
                     window_of(b, "c", 1, 1h, {.deadline = 4s})};
  const call one{.identity = "client"};
  const auto before = deadline::clock::now();
  quota.check(one);
  quota.peek(one);
  quota.refund("client", {}, 1);
  quota.reset("client");
  quota.check_many({&one, 1});
  const auto after = deadline::clock::now();
  CHECK(b.store.asked_until.size() >= 5);
  for (const auto until : b.store.asked_until) {
    CHECK((until >= before + 2s));
    CHECK((until <= after + 2s));
  }
}

TEST_CASE("a batch that could not be asked is answered call by call", "[joint]") {
  on_broken b;
  b.store.joins = GENERATE(true, false);
  const all_of quota{window_of(b, "a", 2, 1h, {.on_failure = fail::local}),
                     log_of(b, "b", 9, 1h, {.on_failure = fail::open})};
  const std::vector<call> calls{
      {.identity = "client"}, {.identity = ""}, {.identity = "client"}, {.identity = "client"}};
  const auto all = quota.check_many(calls);
  CHECK(all[0].parts[0].used == 1);
  CHECK(all[1].from == source::invalid);
  CHECK(all[2].parts[0].used == 2);
  CHECK_FALSE(all[3].allowed);
  CHECK(all[3].from == source::local);
}

TEST_CASE("an observer is told of its limit's part, but not of a peek", "[joint]") {
  on_memory b;
  std::vector<std::string> told;
  const observer watch{.decided = [&](const observation& o) {
    told.push_back(std::string{o.result.limit_name} + (o.result.allowed ? " allowed " : " denied ") +
                   std::to_string(static_cast<int>(o.op)));
  }};
  const all_of quota{window_of(b, "a", 1, 24h, {.observer = watch}), window_of(b, "b", 9, 24h, {.observer = watch})};
  quota.peek("client");
  CHECK(told.empty());
  quota.check("client");
  quota.check("client");
  quota.refund("client", {}, 1);
  const call one{.identity = "client"};
  quota.check_many({&one, 1});
  CHECK(told == std::vector<std::string>{"a allowed 0", "b allowed 0", "a denied 0", "b allowed 0", "a allowed 2",
                                         "b allowed 2", "a allowed 0", "b allowed 0"});
}
