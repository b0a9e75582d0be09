// Real clusters: every limiter, slots on the move, masters that die and come back.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <ratelimit/all_of.hpp>
#include <ratelimit/sliding_counter.hpp>
#include <ratelimit/sliding_log.hpp>
#include <ratelimit/token_bucket.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "limits.hpp"
#include "load.hpp"
#include "recipes/monitor.hpp"
#include "support/cluster.hpp"

namespace {

using namespace clusters;
using ratelimit::scope;

std::vector<std::string> any_identities(std::size_t count) {
  std::minstd_rand random{32};
  std::set<std::string> made{"", "}", "}x", "{", "a}b", "{}"};
  made.erase("");
  while (made.size() < count) {
    std::string one(1 + random() % 12, ' ');
    for (char& c : one) c = static_cast<char>(random() % 256);
    made.insert(std::move(one));
  }
  return {made.begin(), made.end()};
}

// What MONITOR shows on each node of a cluster: that scripts touch no key but those they were given.
class watch {
 public:
  explicit watch(support::cluster& all) {
    for (std::size_t i = 0; i < all.size(); ++i) nodes_.push_back(std::make_unique<recipes::monitor>(all.node(i)));
  }

  // Adds to `declared` the keys that scripts were given since the last time. Returns how often some other was touched.
  std::size_t undeclared(std::set<std::string>& declared) {
    std::size_t others = 0;
    for (const auto& node : nodes_) {
      std::set<std::string> given;
      for (const recipes::seen_command& one : node->commands()) {
        if (one.name() == "EVALSHA" || one.name() == "EVAL") {
          const auto first = one.words.begin() + 3;
          given = {first, first + std::stol(one.words.at(2))};
          declared.insert(given.begin(), given.end());
        } else if (one.by_script && one.words.size() > 1) {
          others += given.count(one.words.at(1)) == 0;
        } else if (is_write(one.name())) {
          others += !one.words.at(1).starts_with("ratelimit:") && !one.words.at(1).starts_with("{ratelimit:");
        }
      }
    }
    return others;
  }

 private:
  // A command that a replica hears of its master's scripts.
  static bool is_write(const std::string& name) {
    const std::set<std::string> told{"SET",     "ZADD",      "ZREM", "ZREMRANGEBYSCORE",
                                     "PEXPIRE", "PEXPIREAT", "DEL",  "UNLINK"};
    return told.count(name) != 0;
  }

  std::vector<std::unique_ptr<recipes::monitor>> nodes_{};
};

}  // namespace

TEST_CASE("every limiter over a thousand identities: nothing is refused, and scripts touch their keys alone") {
  support::cluster servers{3, true, 5s};
  ratelimit::redis store{servers.url()};
  watch seen{servers};
  const std::vector<std::string> identities = any_identities(1000);
  std::set<std::string> declared;

  const auto try_out = [&](const auto& limiter) {
    std::int64_t wrong = 0;
    for (const std::string& identity : identities) {
      const auto first = limiter.check(identity, "eu");
      const auto second = limiter.check(ratelimit::call{.identity = identity, .region = "eu", .request_id = "r1"});
      const auto again = limiter.check(ratelimit::call{.identity = identity, .region = "eu", .request_id = "r1"});
      const auto third = limiter.check(identity, "eu", 2);
      for (const auto* d : {&first, &second, &again}) wrong += d->error || d->from != source::redis || !d->allowed;
      wrong += third.error || third.allowed;
      wrong += first.used != 1 || second.used != 2 || again.used != 2 || third.used != 2;
    }
    CHECK(wrong == 0);
    CHECK(seen.undeclared(declared) == 0);
  };
  try_out(ratelimit::sliding_log{
      store, {.name = "log", .limit = 3, .window = 24h, .on_failure = fail::closed, .deadline = 5s}});
  try_out(ratelimit::sliding_log{store,
                                 {.name = "compact",
                                  .limit = 3,
                                  .window = 24h,
                                  .storage = ratelimit::log_storage::compact,
                                  .on_failure = fail::closed,
                                  .deadline = 5s}});
  try_out(ratelimit::sliding_counter{
      store, {.name = "counter", .limit = 3, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}});
  try_out(ratelimit::token_bucket{
      store, {.name = "bucket", .capacity = 3, .refill = 1, .per = 24h, .on_failure = fail::closed, .deadline = 5s}});
  try_out(ratelimit::fixed_window{
      store, {.name = "window", .limit = 3, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}});
  const ratelimit::sliding_log minute{
      store, {.name = "m", .limit = 3, .window = 24h, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::token_bucket burst{store,
                                      {.name = "b",
                                       .capacity = 4,
                                       .refill = 1,
                                       .per = 24h,
                                       .on_failure = fail::closed,
                                       .by = scope::identity,
                                       .deadline = 5s}};
  try_out(ratelimit::all_of{minute, burst});
  // Five limits, of which each has a key and one that remembers the id; and the joint one's two keys and its id.
  CHECK(declared.size() == 1000 * (5 * 2 + 3));

  // Limits of different scopes share no slot.
  const ratelimit::fixed_window region{store,
                                       {.name = "r",
                                        .limit = 2000,
                                        .window = 24h * 365,
                                        .on_failure = fail::closed,
                                        .by = scope::region,
                                        .deadline = 5s}};
  const ratelimit::fixed_window one{
      store, {.name = "one", .limit = 1, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::all_of apart{region, one};
  std::int64_t wrong = 0, total = 0;
  for (const std::string& identity : identities) {
    const auto first = apart.check(identity, "eu");
    const auto second = apart.check(identity, "eu");
    wrong += first.error || !first.allowed || first.parts[0].used != ++total;
    wrong += second.error || second.allowed || second.parts[0].used != total;
  }
  CHECK(wrong == 0);
  CHECK(seen.undeclared(declared) == 0);

  // A batch over all nodes, in order.
  std::vector<ratelimit::call> calls;
  for (const std::string& identity : identities) calls.push_back({.identity = identity, .region = "us"});
  std::int64_t refused = 0;
  for (const auto& d : minute.check_many(calls)) refused += d.error || d.used != 1;
  for (const auto& d : minute.check_many(calls)) refused += d.error || d.used != 2;
  CHECK(refused == 0);
}

TEST_CASE("slots move under load: nothing is lost and nothing counted twice") {
  const long descriptors = open_descriptors();
  account told;
  {
    support::cluster servers{2, false, 5s};
    const long with_servers = open_descriptors();
    {
      ratelimit::redis store{servers.url()};
      const window single = limiter_on(store, 1s, 1'000'000'000);
      const ratelimit::fixed_window day{
          store,
          {.name = "day", .limit = 1'000'000'000, .window = 24h * 365, .on_failure = fail::closed, .deadline = 1s}};
      const ratelimit::sliding_counter year{
          store,
          {.name = "year", .limit = 1'000'000'000, .window = 24h * 365, .on_failure = fail::closed, .deadline = 1s}};
      const ratelimit::all_of two_keys{day, year};
      // By turns a script of one key, of two keys that both live on, and of two of which one is always new.
      load run{identities(60), 4, 1s, memory::exact, [&](const std::string& identity, long n) -> ratelimit::decision {
                 const int kind = identity.back() % 3;
                 if (kind == 0) return single.check(identity);
                 if (kind == 1) return two_keys.check(identity).parts[1];
                 const std::string id = std::to_string(n);
                 return day.check(ratelimit::call{.identity = identity, .request_id = id});
               }};
      support::wait_until([&] { return run.counted_so_far() > 200; });
      run.fault();
      std::vector<int> slots;
      for (const std::string& identity : identities(60)) slots.push_back(slot_of_identity(identity));
      const std::size_t added = servers.add_node();
      for (std::size_t i = 0; i < slots.size(); i += 2)
        servers.move_slot(slots[i], added, [] { std::this_thread::sleep_for(20ms); });
      for (std::size_t i = 0; i < slots.size(); i += 4)
        servers.move_slot(slots[i], 0, [] { std::this_thread::sleep_for(20ms); });
      run.recovered();
      told = run.stop();
      CHECK(servers.node(added).info("total_connections_received") > 0);
    }
    told.leaked = open_descriptors() - with_servers - 1;  // the new node's observer
  }
  told.leaked += open_descriptors() - descriptors;
  told.report("slots migrated under load");
  CHECK(told.counted > 500);
  CHECK(told.wrong == 0);
  CHECK(told.doubled == 0);
  CHECK(told.maybe == 0);
  CHECK(told.leaked == 0);
}

TEST_CASE("a cluster's master dies under load, and its replica takes over") {
  account killed, frozen;
  support::cluster servers{3, true, 1500ms};
  const long descriptors = open_descriptors();
  {
    ratelimit::redis store{servers.url()};
    const window limiter = limiter_on(store, 50ms, 1'000'000'000);
    const auto ask = [&](const std::string& identity, long) { return limiter.check(identity); };
    {
      load run{identities(60), 4, 50ms, memory::may_lose, ask};
      support::wait_until([&] { return run.counted_so_far() > 200; });
      run.fault();
      servers.node(0).kill();
      support::wait_until([&] { return servers.node(3).command({"ROLE"}).items.at(0).text == "master"; }, 180s);
      support::wait_until([&] { return limiter.check(identity_within(0, 5000)).counted(); }, 180s);
      run.recovered();
      const long before = run.counted_so_far();
      support::wait_until([&] { return run.counted_so_far() > before + 200; });
      killed = run.stop();
    }
    for (const std::string& identity : identities(60)) CHECK(limiter.check(identity).error == std::error_code{});
    servers.node(0).start();
    servers.wait_until_whole();
    {
      // It answers nobody, and refuses nobody.
      load run{identities(60, "other"), 4, 50ms, memory::may_lose, ask};
      support::wait_until([&] { return run.counted_so_far() > 200; });
      run.fault();
      servers.node(1).freeze();
      support::wait_until([&] { return servers.node(4).command({"ROLE"}).items.at(0).text == "master"; }, 180s);
      support::wait_until([&] { return limiter.check(identity_within(5500, 10900)).counted(); }, 180s);
      run.recovered();
      const long before = run.counted_so_far();
      support::wait_until([&] { return run.counted_so_far() > before + 200; });
      servers.node(1).thaw();
      support::wait_until([&] { return servers.node(1).command({"ROLE"}).items.at(0).text == "slave"; }, 180s);
      frozen = run.stop();
    }
    for (const std::string& identity : identities(60)) CHECK(limiter.check(identity).error == std::error_code{});
  }
  killed.leaked = frozen.leaked = open_descriptors() - descriptors;
  killed.report("cluster failover under load: kill -9");
  frozen.report("cluster failover under load: SIGSTOP");
  for (const account& one : {killed, frozen}) {
    CHECK(one.wrong == 0);
    CHECK(one.doubled == 0);
    CHECK(one.leaked == 0);
  }
}
