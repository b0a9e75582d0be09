// Real clusters and sentinels at other addresses than plain 127.0.0.1: by IPv6, and by TLS alone.
#include <chrono>
#include <cstdint>
#include <ratelimit/all_of.hpp>
#include <ratelimit/redis/tls.hpp>
#include <ratelimit/sliding_counter.hpp>
#include <ratelimit/sliding_log.hpp>
#include <ratelimit/token_bucket.hpp>
#include <string>
#include <vector>

#include "limits.hpp"
#include "support/certificates.hpp"
#include "support/cluster.hpp"
#include "support/sentinel.hpp"

namespace {

using namespace clusters;

constexpr int identities = 60;

// Every limiter counts every identity once more.
void check_all(ratelimit::redis& store, std::int64_t used) {
  const ratelimit::sliding_log log{
      store, {.name = "log", .limit = 10, .window = 24h, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::sliding_log compact{store,
                                       {.name = "compact",
                                        .limit = 10,
                                        .window = 24h,
                                        .storage = ratelimit::log_storage::compact,
                                        .on_failure = fail::closed,
                                        .deadline = 5s}};
  const ratelimit::sliding_counter counter{
      store, {.name = "counter", .limit = 10, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::token_bucket bucket{
      store, {.name = "bucket", .capacity = 10, .refill = 1, .per = 24h, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::fixed_window year{
      store, {.name = "window", .limit = 10, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::fixed_window other{
      store, {.name = "other", .limit = 10, .window = 24h * 365, .on_failure = fail::closed, .deadline = 5s}};
  const ratelimit::all_of joint{year, other};
  const auto each = [&](const auto& limiter, std::int64_t expected) {
    for (int i = 0; i < identities; ++i) check_taken(limiter.check("user" + std::to_string(i), "eu"), expected);
  };
  each(log, used);
  each(compact, used);
  each(counter, used);
  each(bucket, used);
  each(year, 2 * used - 1);
  for (int i = 0; i < identities; ++i) {
    const auto d = joint.check("user" + std::to_string(i), "eu");
    CHECK(d.error == std::error_code{});
    CHECK(d.from == source::redis);
    CHECK(d.allowed);
    REQUIRE(d.parts.size() == 2);
    CHECK(d.parts[0].used == 2 * used);
    CHECK(d.parts[1].used == used);
  }
}

// A store that knows where slots are, one of which moves: told by MOVED, and while it is half moved by ASK.
void check_redirections(support::cluster& servers, ratelimit::redis& store) {
  for (std::size_t i = 0; i < 3; ++i) {
    const int first = static_cast<int>(16384 * i / 3), last = static_cast<int>(16384 * (i + 1) / 3 - 1);
    check_taken(limiter_on(store).check(identity_within(first, last)), 1);
  }
  const std::string who = identity_within(0, 16384 / 3 - 1);
  const int slot = slot_of_identity(who);
  REQUIRE(servers.owner(slot) == 0);
  for (std::size_t i = 0; i < 3; ++i) servers.node(i).reset_statistics();
  servers.move_slot(slot, 2, [&] { check_taken(limiter_on(store).check(who), 2); });  // its key has moved: ASK
  const auto refused = [&](const std::string& how) {
    return servers.node(0).command({"INFO", "errorstats"}).text.find("errorstat_" + how + ":count=1\r") !=
           std::string::npos;
  };
  CHECK(refused("ASK"));
  CHECK(servers.node(2).calls("asking") == 1);
  CHECK_FALSE(refused("MOVED"));
  check_taken(limiter_on(store).check(who), 3);
  CHECK(refused("MOVED"));
  check_taken(limiter_on(store).check(who), 4);
  CHECK(refused("MOVED"));  // once: it is known now
  CHECK(servers.node(2).calls("asking") == 1);
  CHECK(limiter_on(store).peek(who).used == 4);
}

std::vector<std::string> tls_arguments(const support::authority& by, const support::pem_files& own) {
  return {"--tls-cert-file",    own.certificate, "--tls-key-file",     own.key,
          "--tls-ca-cert-file", by.ca_file(),    "--tls-auth-clients", "no"};
}

}  // namespace

TEST_CASE("a cluster on IPv6: every limiter, and redirections to addresses with colons") {
  // Where the machine has no ::1 this throws, and says so.
  support::cluster servers{3, false, 5s, {}, "::1"};
  const auto slots = servers.node(0).command({"CLUSTER", "SLOTS"});
  REQUIRE(slots.items.size() == 3);
  for (const auto& range : slots.items) CHECK(range.items.at(2).items.at(0).text == "::1");

  ratelimit::redis store{servers.url()};
  check_all(store, 1);
  check_redirections(servers, store);
  check_all(store, 2);

  // Of one node alone the others are learned.
  ratelimit::redis by_one{"redis+cluster://[::1]:" + std::to_string(servers.node(1).port())};
  check_all(by_one, 3);
}

TEST_CASE("a cluster by TLS alone: every limiter, and redirections") {
  support::authority ours;
  support::cluster servers{3, false, 5s, {}, "127.0.0.1", tls_arguments(ours, ours.issue("IP:127.0.0.1"))};
  ratelimit::redis_options chosen = ratelimit::parse_redis_url(servers.url());
  REQUIRE(chosen.tls != nullptr);
  REQUIRE(chosen.nodes.front().port == servers.node(0).tls_port());
  chosen.tls = ratelimit::make_tls({.ca_file = ours.ca_file()});
  ratelimit::redis store{chosen};
  check_all(store, 1);
  check_redirections(servers, store);
  check_all(store, 2);

  // Somebody who does not trust the nodes' certificates.
  chosen.tls = ratelimit::make_tls();
  ratelimit::redis stranger{chosen};
  check_uncounted(limiter_on(stranger).check("a"), errc::tls);
}

TEST_CASE("sentinels and their servers by TLS alone: every limiter, and a failover") {
  support::authority ours;
  support::sentinel_group servers{{.tls = tls_arguments(ours, ours.issue("IP:127.0.0.1"))}};
  ratelimit::redis_options chosen = ratelimit::parse_redis_url(servers.url());
  REQUIRE(chosen.tls != nullptr);
  REQUIRE(chosen.nodes.front().port == servers.sentinel(0).tls_port());
  chosen.tls = ratelimit::make_tls({.ca_file = ours.ca_file()});
  ratelimit::redis store{chosen};
  check_all(store, 1);
  support::wait_until([&] { return servers.is_synced_replica(1); });
  // The master waits until its replica has it all.
  servers.node(0).command({"WAIT", "1", "5000"});

  servers.node(0).kill();
  support::wait_until([&] { return servers.is_master(1); });
  support::wait_until([&] { return limiter_on(store).peek("a").from == source::redis; });
  check_all(store, 2);
  CHECK(servers.node(1).calls("evalsha") > 0);

  chosen.tls = ratelimit::make_tls();
  ratelimit::redis stranger{chosen};
  check_uncounted(limiter_on(stranger).check("a"), errc::tls);
}
