// A server that holds to the slots of a cluster: every key of a script must lie in one.
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "joint/stores.hpp"
#include "recipes/monitor.hpp"

using namespace joint;

namespace {

// A cluster of one server, which refuses keys of two slots in one script as any cluster does.
class on_cluster {
 public:
  on_cluster() {
    server.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
    while (server.command({"CLUSTER", "INFO"}).text.find("cluster_state:ok") == std::string::npos)
      std::this_thread::sleep_for(10ms);
  }

  support::server server{{.tcp = true, .config = {"--cluster-enabled", "yes"}}};
  ratelimit::redis store{server.url()};
  manual_clock clock{midnight};
};

constexpr scope scopes[] = {scope::identity_and_region, scope::identity, scope::region, scope::everyone};

// The keys that a command of EVALSHA or EVAL declares.
std::vector<std::string> keys_of(const recipes::seen_command& one) {
  const auto first = one.words.begin() + 3;
  return {first, first + std::stol(one.words[2])};
}

// Identities that are made to move or to end a hash tag.
std::vector<std::string> identities() {
  std::vector<std::string> all{"client", "{", "}", "{}", "}{", "{a}b", "a}b{c", "%7B", ":", "a:{b}:c", " "};
  for (int i = 0; i < 200; ++i) all.push_back("user" + std::to_string(i));
  return all;
}

}  // namespace

TEST_CASE("the key of a call's id lies in the slot of its limit, whatever the scope", "[joint]") {
  on_cluster b;
  const auto slot = [&](const std::string& key) { return b.server.command({"CLUSTER", "KEYSLOT", key}).number; };
  for (const scope by : scopes) {
    with_each(b, "ids", 1000, 24h, {.by = by}, [&](const auto& limit) {
      for (const std::string& identity : {std::string{"client"}, std::string{"{a}b"}, std::string{"}"}}) {
        recipes::monitor monitor{b.server};
        const call c{.identity = identity, .region = "eu", .request_id = "{r}1:" + identity};
        const decision first = limit.check(c);
        CHECK(first.from == source::redis);
        CHECK(limit.check(c).used == first.used);
        CHECK((all_of{limit}.check(c).used == first.used + 1));
        for (const auto& one : monitor.commands()) {
          if (one.by_script) continue;
          const std::vector<std::string> keys = keys_of(one);
          REQUIRE(keys.size() == 2);
          CHECK(slot(keys[0]) == slot(keys[1]));
        }
      }
    });
  }
}

TEST_CASE("limits of one identity are one script on a cluster", "[joint]") {
  on_cluster b;
  const all_of quota{counter_of(b, "minute", 100, 24h), bucket_of(b, "burst", 100, 24h), window_of(b, "day", 5000, 24h),
                     log_of(b, "ceiling", 400, 24h, {.by = scope::identity})};
  for (const std::string& identity : identities()) {
    CAPTURE(identity);
    const auto d = quota.check({.identity = identity, .region = "eu", .request_id = "r1"});
    CHECK(d.from == source::redis);
    CHECK(d.error == std::error_code{});
    for (const decision& part : d.parts) CHECK(part.used == 1);
  }
}

TEST_CASE("keys of two slots in one script are an error that is told", "[joint]") {
  on_cluster b;
  const setup open{.by = scope::everyone, .on_failure = fail::open};
  const all_of quota{window_of(b, "one", 5, 24h, {.on_failure = fail::open}), window_of(b, "all", 5, 24h, open)};
  const auto d = quota.check("client", "eu");
  CHECK(d.allowed);
  CHECK(d.from == source::failed_open);
  CHECK(d.error == errc::cluster);
  CHECK_FALSE(d.counted());
  CHECK(d.remaining == 0);
  CHECK(b.server.command({"DBSIZE"}).number == 0);
}

TEST_CASE("limits of several scopes are asked one after the other where their slots differ", "[joint]") {
  on_cluster b;
  struct {
    apart<ratelimit::redis> store;
    manual_clock clock;
  } kept{apart{b.store}, b.clock};
  const all_of quota{window_of(kept, "one", 9, 24h), log_of(kept, "region", 9, 24h, {.by = scope::region}),
                     bucket_of(kept, "all", 3, 24h, {.by = scope::everyone})};
  for (std::int64_t used = 1; used <= 3; ++used) {
    const std::string id = "r" + std::to_string(used);
    const call c{.identity = "client", .region = "eu", .request_id = id};
    for (int i = 0; i < 2; ++i) {
      const auto d = quota.check(c);
      CHECK(d.allowed);
      CHECK(d.from == source::redis);
      for (const decision& part : d.parts) CHECK(part.used == used);
    }
  }
  for (const char* const identity : {"client", "other"}) {
    const auto denied = quota.check({.identity = identity, .region = "eu", .request_id = "r4"});
    CHECK_FALSE(denied.allowed);
    CHECK(denied.limit_name == "all");
    CHECK(denied.parts[1].used == 3);
  }
  CHECK(quota.peek("other", "eu").parts[0].used == 0);
  CHECK_FALSE(quota.reset("client", "eu"));
  CHECK(quota.check("client", "eu").parts[2].used == 1);
}
