// What metrics print, number by number.
#include <ratelimit/metrics.hpp>

#include <atomic>
#include <cstdint>
#include <locale>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "exposition.hpp"
#include "stores.hpp"
#include "support/allocations.hpp"
#include "support/fake_server.hpp"

namespace {

using namespace inprocess;
using ratelimit::algorithm_id;
using ratelimit::breaker_state;
using ratelimit::decision;
using ratelimit::operation;

constexpr auto decisions = "ratelimit_decisions_total";
constexpr auto refunds = "ratelimit_refunds_total";
constexpr auto durations = "ratelimit_check_duration_seconds";

std::uint64_t decided(const ratelimit::metrics& of, const std::string& outcome, const std::string& from,
                      const std::string& error = "none", const std::string& limit = "recipe",
                      const std::string& algorithm = "sliding_log") {
  return exposition{of.text()}.count(
      decisions,
      {{"limit", limit}, {"algorithm", algorithm}, {"outcome", outcome}, {"source", from}, {"error", error}});
}

template <class Store>
auto log(Store& store, const ratelimit::observer& observer, fail on_failure = fail::closed, std::string name = "recipe",
         bool shadow = false) {
  return ratelimit::sliding_log{store,
                                {.name = std::move(name),
                                 .limit = 2,
                                 .window = 60s,
                                 .on_failure = on_failure,
                                 .deadline = recipes::patience,
                                 .shadow = shadow,
                                 .observer = observer},
                                ratelimit::manual_clock{w0}};
}

}  // namespace

TEST_CASE("Metrics, to the byte", "[inprocess]") {
  const ratelimit::metrics metrics;
  const ratelimit::observer observer = metrics;
  const auto call = [&](std::chrono::nanoseconds took, bool allowed, operation op = operation::take) {
    const decision d{.allowed = allowed, .from = source::redis, .limit_name = "discover"};
    observer.decided({d, algorithm_id::token_bucket, op, took});
  };
  call(50us, true);
  call(50us + 1ns, true);
  call(1s, false);
  call(1s + 1ns, false);
  call(5s, true, operation::refund);
  observer.breaker({"192.0.2.7:6379", breaker_state::open, errc::timeout});
  observer.breaker({"192.0.2.7:6379", breaker_state::half_open, {}});
  CHECK(metrics.text() ==
        R"(# HELP ratelimit_decisions_total Calls of check, by their outcome and by who answered.
# TYPE ratelimit_decisions_total counter
ratelimit_decisions_total{limit="discover",algorithm="token_bucket",outcome="allowed",source="redis",error="none"} 2
ratelimit_decisions_total{limit="discover",algorithm="token_bucket",outcome="denied",source="redis",error="none"} 2
# HELP ratelimit_refunds_total Calls of refund, by who answered.
# TYPE ratelimit_refunds_total counter
ratelimit_refunds_total{limit="discover",algorithm="token_bucket",source="redis",error="none"} 1
# HELP ratelimit_check_duration_seconds How long calls of check took, by who answered.
# TYPE ratelimit_check_duration_seconds histogram
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.00005"} 1
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.0001"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.00025"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.0005"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.001"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.0025"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.005"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.01"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.025"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.05"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.1"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.25"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="0.5"} 2
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="1"} 3
ratelimit_check_duration_seconds_bucket{limit="discover",algorithm="token_bucket",source="redis",le="+Inf"} 4
ratelimit_check_duration_seconds_sum{limit="discover",algorithm="token_bucket",source="redis"} 2.000100002
ratelimit_check_duration_seconds_count{limit="discover",algorithm="token_bucket",source="redis"} 4
# HELP ratelimit_breaker_state Whether the circuit breaker of a server is in a state: 1 or 0.
# TYPE ratelimit_breaker_state gauge
ratelimit_breaker_state{address="192.0.2.7:6379",state="closed"} 0
ratelimit_breaker_state{address="192.0.2.7:6379",state="open"} 0
ratelimit_breaker_state{address="192.0.2.7:6379",state="half_open"} 1
# HELP ratelimit_breaker_changes_total Changes of a circuit breaker, by the state it came to.
# TYPE ratelimit_breaker_changes_total counter
ratelimit_breaker_changes_total{address="192.0.2.7:6379",state="open",error="timeout"} 1
ratelimit_breaker_changes_total{address="192.0.2.7:6379",state="half_open",error="none"} 1
)");
  exposition{metrics.text()};
}

TEST_CASE("Metrics of nothing are still metrics", "[inprocess]") {
  const exposition none{ratelimit::metrics{}.text()};
  CHECK(none.size() == 0);
  CHECK(none.families().size() == 5);
  CHECK(std::string_view{ratelimit::metrics::content_type} == "text/plain; version=0.0.4; charset=utf-8");
}

TEST_CASE("Each outcome has its own counter", "[inprocess]") {
  failing_store store;
  const ratelimit::metrics metrics;
  const auto closed = log(store, metrics);
  const auto open = log(store, metrics, fail::open);
  const auto local = log(store, metrics, fail::local);
  const auto shadow = log(store, metrics, fail::closed, "shadow", true);

  for (int i = 0; i < 5; ++i) closed.check("client", "eu");
  closed.peek("client", "eu");
  closed.check("", "eu");
  closed.check("client", "eu", -1);
  closed.refund("client", "eu", 1);
  for (int i = 0; i < 4; ++i) shadow.check("client", "eu");
  shadow.check("");
  store.error = errc::timeout;
  closed.check("client", "eu");
  closed.refund("client", "eu", 1);
  open.check("client", "eu");
  open.check("client", "eu");
  for (int i = 0; i < 7; ++i) local.check("client", "eu");
  shadow.check("client", "eu");

  CHECK(decided(metrics, "allowed", "memory") == 2);
  CHECK(decided(metrics, "denied", "memory") == 3);
  CHECK(decided(metrics, "invalid", "invalid", "invalid_identity") == 1);
  CHECK(decided(metrics, "invalid", "invalid", "invalid_cost") == 1);
  CHECK(decided(metrics, "unavailable", "failed_closed", "timeout") == 1);
  CHECK(decided(metrics, "allowed", "failed_open", "timeout") == 2);
  CHECK(decided(metrics, "allowed", "local", "timeout") == 2);
  CHECK(decided(metrics, "denied", "local", "timeout") == 5);
  CHECK(decided(metrics, "allowed", "memory", "none", "shadow") == 2);
  CHECK(decided(metrics, "would_deny", "memory", "none", "shadow") == 2);
  CHECK(decided(metrics, "would_deny", "invalid", "invalid_identity", "shadow") == 1);
  CHECK(decided(metrics, "would_deny", "failed_closed", "timeout", "shadow") == 1);
  const exposition all{metrics.text()};
  CHECK(all.total(decisions) == 23);
  CHECK(all.total(std::string{durations} + "_count") == 23);
  CHECK(all.total(refunds) == 2);
  const labels closed_refunds{{"limit", "recipe"}, {"algorithm", "sliding_log"}};
  const auto refund_from = [&](const std::string& from, const std::string& error) {
    labels of = closed_refunds;
    of["source"] = from;
    of["error"] = error;
    return all.count(refunds, of);
  };
  CHECK(refund_from("memory", "none") == 1);
  CHECK(refund_from("failed_closed", "timeout") == 1);
}

TEST_CASE("Deny cache hits are decisions of the deny cache", "[inprocess]") {
  failing_store store;
  const ratelimit::metrics metrics;
  const ratelimit::sliding_log limiter{
      store,
      {.name = "recipe", .limit = 1, .window = 60s, .on_failure = fail::closed, .deny_cache = 10, .observer = metrics},
      ratelimit::manual_clock{w0}};
  for (int i = 0; i < 12; ++i) limiter.check("client", "eu");
  CHECK(store.asked == 2);
  CHECK(decided(metrics, "allowed", "memory") == 1);
  CHECK(decided(metrics, "denied", "memory") == 1);
  CHECK(decided(metrics, "denied", "deny_cache") == 10);
}

TEST_CASE("Each error class is counted under its own name", "[inprocess]") {
  failing_store store;
  const ratelimit::metrics metrics;
  const auto limiter = log(store, metrics, fail::open);
  const std::vector<std::pair<std::error_code, std::string>> classes{{errc::timeout, "timeout"},
                                                                     {errc::refused, "refused"},
                                                                     {errc::closed, "closed"},
                                                                     {errc::protocol, "protocol"},
                                                                     {errc::permission, "permission"},
                                                                     {errc::out_of_memory, "out_of_memory"},
                                                                     {errc::read_only, "read_only"},
                                                                     {errc::loading, "loading"},
                                                                     {errc::busy, "busy"},
                                                                     {errc::cluster, "cluster"},
                                                                     {errc::script, "script"},
                                                                     {errc::too_many_clients, "too_many_clients"},
                                                                     {errc::database, "database"},
                                                                     {{1, std::generic_category()}, "other"},
                                                                     {{1000, ratelimit::error_category()}, "other"},
                                                                     {{-5, ratelimit::error_category()}, "other"}};
  std::map<std::string, std::uint64_t> so_far;
  for (const auto& [error, name] : classes) {
    INFO(name);
    store.error = error;
    for (std::uint64_t i = 0; i < 3; ++i) {
      CHECK(limiter.check("client", "eu").error == error);
      CHECK(decided(metrics, "allowed", "failed_open", name) == ++so_far[name]);
    }
  }
  store.error = {};
  const std::string long_text(513, 'a');
  limiter.check("client", long_text);
  limiter.check(ratelimit::call{.identity = "client", .limit = 0});
  limiter.check(ratelimit::call{.identity = "client", .request_id = long_text});
  CHECK(decided(metrics, "invalid", "invalid", "invalid_region") == 1);
  CHECK(decided(metrics, "invalid", "invalid", "invalid_limit") == 1);
  CHECK(decided(metrics, "invalid", "invalid", "invalid_request_id") == 1);
}

TEST_CASE("A limit's name is a label, whatever is in it", "[inprocess]") {
  ratelimit::memory store;
  const ratelimit::metrics metrics;
  const std::vector<std::pair<std::string, std::string>> names{{"api.v1/get", "api.v1/get"},
                                                               {"a\"b", "a\"b"},
                                                               {"a\\b", "a\\b"},
                                                               {"a\nb", "a\nb"},
                                                               {"", ""},
                                                               {"\xF0\x9F\x9A\xA6", "\xF0\x9F\x9A\xA6"},
                                                               {"\\\"\n\\n", "\\\"\n\\n"},
                                                               {std::string("nul\0", 4), "nul\xEF\xBF\xBD"},
                                                               {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                                                               {"r\xE9gion", "r\xEF\xBF\xBDgion"}};
  for (const auto& [name, label] : names) {
    log(store, metrics, fail::closed, name).check("client", "eu");
    CHECK(decided(metrics, "allowed", "memory", "none", label) == 1);
  }
  // Another name that reads the same: one line, not two.
  log(store, metrics, fail::closed, "r\xE8gion").check("client", "eu");
  CHECK(decided(metrics, "allowed", "memory", "none", "r\xEF\xBF\xBDgion") == 2);
  CHECK(exposition{metrics.text()}.families().at(decisions).samples.size() == names.size());
}

TEST_CASE("One name, four algorithms: four series", "[inprocess]") {
  ratelimit::memory store;
  const ratelimit::metrics metrics;
  const ratelimit::observer observer = metrics;
  const ratelimit::manual_clock clock{w0};
  ratelimit::sliding_log{
      store, {.name = "n", .limit = 1, .window = 1s, .on_failure = fail::open, .observer = observer}, clock}
      .check("client");
  ratelimit::sliding_counter{
      store, {.name = "n", .limit = 1, .window = 1s, .on_failure = fail::open, .observer = observer}, clock}
      .check("client");
  ratelimit::token_bucket{
      store,
      {.name = "n", .capacity = 1, .refill = 1, .per = 1s, .on_failure = fail::open, .observer = observer},
      clock}
      .check("client");
  ratelimit::fixed_window{
      store, {.name = "n", .limit = 1, .window = 1s, .on_failure = fail::open, .observer = observer}, clock}
      .check("client");
  for (const char* const algorithm : {"sliding_log", "sliding_counter", "token_bucket", "fixed_window"})
    CHECK(decided(metrics, "allowed", "memory", "none", "n", algorithm) == 1);
}

TEST_CASE("100,000 identities make no more series than 10", "[inprocess]") {
  const auto scrape_after = [](int identities) {
    failing_store store{ratelimit::memory{{.entries = 1000}}};
    const ratelimit::metrics metrics;
    const std::vector limits{log(store, metrics, fail::open, "one"), log(store, metrics, fail::local, "two"),
                             log(store, metrics, fail::closed, "three")};
    const ratelimit::manual_clock clock{w0};
    const ratelimit::sliding_log cached{store,
                                        {.name = "four",
                                         .limit = 1,
                                         .window = 60s,
                                         .on_failure = fail::closed,
                                         .deny_cache = 5,
                                         .shadow = true,
                                         .observer = metrics},
                                        clock};
    const auto all = [&](int i) {
      const std::string identity = "client" + std::to_string(i);
      for (const bool down : {false, true}) {
        store.error = down ? std::error_code{errc::timeout} : std::error_code{};
        for (const auto& limit : limits) {
          for (int n = 0; n < 3; ++n) limit.check(identity, identity);
          limit.refund(identity, identity, 1);
          limit.check(identity, identity, -1);
        }
        for (int n = 0; n < 3; ++n) cached.check(identity, identity);
      }
    };
    for (int i = 0; i < identities; ++i) all(i);
    const std::string text = metrics.text();
    CHECK(text.find("client") == std::string::npos);
    return exposition{text}.size();
  };
  // 16 decisions, 6 refunds, and 11 histograms of 17 lines.
  CHECK(scrape_after(10) == 209);
  CHECK(scrape_after(100'000) == 209);
}

TEST_CASE("An observed check allocates nothing after the first", "[inprocess]") {
  ratelimit::memory store;
  const ratelimit::metrics metrics;
  const auto limiter = log(store, metrics);
  for (int i = 0; i < 3; ++i) limiter.check("client", "eu");
  const std::size_t before = support::allocations_here();
  for (int i = 0; i < 1000; ++i) limiter.check("client", "eu");
  CHECK(support::allocations_here() == before);
  CHECK(decided(metrics, "denied", "memory") == 1001);
}

TEST_CASE("Counters never go down, and none is lost, while they are read", "[inprocess]") {
  ratelimit::memory store;
  const ratelimit::metrics metrics;
  constexpr int threads = 4;
  constexpr int calls = 20'000;
  std::atomic<int> running{threads};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      const ratelimit::observer observer = metrics;
      for (int i = 0; i < calls; ++i) {
        // New limits while the table is read, and breakers too.
        const std::string name = i % 100 == 0 ? "limit" + std::to_string(i) : "recipe";
        if (i % 100 == 0) observer.breaker({name, breaker_state::open, errc::refused});
        const decision d{.allowed = (i + t) % 2 == 0, .from = source::redis, .limit_name = name};
        observer.decided({d, algorithm_id::sliding_log, operation::take, std::chrono::microseconds{i}});
      }
      --running;
    });
  std::map<std::pair<std::string, labels>, std::string> last;
  int went_down = 0;
  const auto number = [](const std::string& text) { return std::stod(text); };
  do {
    const exposition now{metrics.text()};
    for (const auto& [key, value] : last) {
      const auto found = now.samples().find(key);
      if (key.first != "ratelimit_breaker_state" &&
          (found == now.samples().end() || number(found->second) < number(value)))
        ++went_down;
    }
    last = now.samples();
  } while (running > 0);
  for (std::thread& one : workers) one.join();
  CHECK(went_down == 0);
  const exposition all{metrics.text()};
  CHECK(all.total(decisions) == threads * calls);
  CHECK(all.total(std::string{durations} + "_count") == threads * calls);
  CHECK(all.total(decisions, {{"limit", "recipe"}}) == threads * (calls - calls / 100));
  CHECK(all.total(decisions, {{"limit", "limit100"}, {"outcome", "allowed"}}) == threads / 2);
  CHECK(all.total("ratelimit_breaker_changes_total", {{"state", "open"}}) == threads * calls / 100);
}

TEST_CASE("Metrics do not speak the program's locale", "[inprocess]") {
  struct grouped : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const ratelimit::metrics metrics;
  const ratelimit::observer observer = metrics;
  const decision d{.allowed = true, .from = source::redis, .limit_name = "recipe"};
  for (int i = 0; i < 12'345; ++i) observer.decided({d, algorithm_id::sliding_log, operation::take, 1ms});
  const std::locale before = std::locale::global(std::locale{std::locale::classic(), new grouped});
  const std::string text = metrics.text();
  std::locale::global(before);
  CHECK(text == metrics.text());
  const exposition all{text};
  CHECK(all.total(decisions) == 12'345);
  CHECK(all.samples().at({std::string{durations} + "_sum",
                          {{"limit", "recipe"}, {"algorithm", "sliding_log"}, {"source", "redis"}}}) == "12.345000000");
}

TEST_CASE("Copies of metrics share the counts, and a limiter keeps them alive", "[inprocess]") {
  ratelimit::memory store;
  std::optional<ratelimit::metrics> first{std::in_place};
  const ratelimit::metrics second = *first;
  const auto limiter = log(store, *first);
  first.reset();
  CHECK(limiter.check("client", "eu").allowed);
  CHECK(decided(second, "allowed", "memory") == 1);
  CHECK(decided(ratelimit::metrics{}, "allowed", "memory") == 0);
}

TEST_CASE("A breaker is shown in the state it came to last", "[inprocess]") {
  const ratelimit::metrics metrics;
  const ratelimit::observer observer = metrics;
  const std::string odd = "unix:/run/\"\\\n\xff";
  const std::string shown = "unix:/run/\"\\\n\xEF\xBF\xBD";
  observer.breaker({odd, breaker_state::open, errc::refused});
  observer.breaker({odd, breaker_state::half_open, {}});
  observer.breaker({odd, breaker_state::open, errc::loading});
  observer.breaker({odd, breaker_state::half_open, {}});
  observer.breaker({odd, breaker_state::closed, {}});
  observer.breaker({"192.0.2.1:6379", breaker_state::open, errc::timeout});
  const exposition all{metrics.text()};
  const auto state = [&](const std::string& address, const std::string& name) {
    return all.count("ratelimit_breaker_state", {{"address", address}, {"state", name}});
  };
  CHECK(state(shown, "closed") == 1);
  CHECK(state(shown, "open") == 0);
  CHECK(state(shown, "half_open") == 0);
  CHECK(state("192.0.2.1:6379", "closed") == 0);
  CHECK(state("192.0.2.1:6379", "open") == 1);
  const auto changes = [&](const std::string& name, const std::string& error) {
    return all.count("ratelimit_breaker_changes_total", {{"address", shown}, {"state", name}, {"error", error}});
  };
  CHECK(changes("open", "refused") == 1);
  CHECK(changes("open", "loading") == 1);
  CHECK(changes("half_open", "none") == 2);
  CHECK(changes("closed", "none") == 1);
  CHECK(all.families().at("ratelimit_breaker_state").samples.size() == 6);
}

TEST_CASE("A malformed answer is an error of class protocol, counted at each call", "[inprocess]") {
  for (const char* const reply :
       {"+OK\r\n", "$5\r\nhello\r\n", ":9007199254740992\r\n", "$-1\r\n", "*-1\r\n", "*1\r\n:1\r\n",
        "*3\r\n:1\r\n:2\r\n+x\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n", ",1.5\r\n"}) {
    INFO(reply);
    support::fake_server server{[&](const support::words&) { return support::bytes{reply}; }};
    ratelimit::redis store{server.url()};
    const ratelimit::metrics metrics;
    const auto limiter = log(store, metrics, fail::open);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const decision d = limiter.check("client", "eu");
      CHECK(d.from == source::failed_open);
      CHECK(d.error == errc::protocol);
      CHECK(figures(d) == pass(0, 0, 0us, 0us));
      CHECK_FALSE(d.counted());
      CHECK(decided(metrics, "allowed", "failed_open", "protocol") == i);
    }
  }
}

TEST_CASE("What a server refuses is an error of its class, counted at each call", "[inprocess]") {
  const std::vector<std::pair<std::string, std::string>> refusals{
      {"OOM command not allowed when used memory > 'maxmemory'.", "out_of_memory"},
      {"LOADING Redis is loading the dataset in memory", "loading"},
      {"BUSY Redis is busy running a script.", "busy"},
      {"READONLY You can't write against a read only replica.", "read_only"},
      {"NOPERM this user has no permissions to run the 'evalsha' command", "permission"},
      {"NOAUTH Authentication required.", "permission"},
      {"MOVED 1234 192.0.2.1:6379", "cluster"},
      {"CLUSTERDOWN The cluster is down", "cluster"},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", "script"},
      {"ERR max number of clients reached", "too_many_clients"}};
  for (const auto& [text, name] : refusals) {
    INFO(text);
    support::fake_server server{[&sent = text](const support::words&) { return support::bytes{"-" + sent + "\r\n"}; }};
    ratelimit::redis store{server.url()};
    const ratelimit::metrics metrics;
    const auto open = log(store, metrics, fail::open);
    const auto closed = log(store, metrics, fail::closed);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      CHECK(figures(open.check("client", "eu")) == pass(0, 0, 0us, 0us));
      CHECK(decided(metrics, "allowed", "failed_open", name) == i);
      const decision refused = closed.check("client", "eu");
      CHECK(figures(refused) == never(0, 0, 0us, 0us));
      CHECK(refused.from == source::failed_closed);
      CHECK_FALSE(refused.counted());
      CHECK(decided(metrics, "unavailable", "failed_closed", name) == i);
    }
  }
}

TEST_CASE("A total outage is seen in the metrics", "[inprocess]") {
  support::server server;
  server.kill();
  ratelimit::redis store{server.url()};
  const ratelimit::metrics metrics;
  const auto open = log(store, metrics, fail::open);
  const auto closed = log(store, metrics, fail::closed);
  const auto local = log(store, metrics, fail::local);
  for (int i = 0; i < 100; ++i) {
    open.check("client", "eu");
    closed.check("client", "eu");
    local.check("client", "eu");
  }
  CHECK(decided(metrics, "allowed", "failed_open", "refused") == 100);
  CHECK(decided(metrics, "unavailable", "failed_closed", "refused") == 100);
  CHECK(decided(metrics, "allowed", "local", "refused") == 2);
  CHECK(decided(metrics, "denied", "local", "refused") == 98);
  CHECK(exposition{metrics.text()}.total(decisions) == 300);
}

TEST_CASE("The store's breaker is seen in the metrics", "[inprocess]") {
  support::server server;
  const ratelimit::metrics metrics;
  ratelimit::redis store{asks_again_soon(server, metrics)};
  const auto limiter = log(store, metrics, fail::open);
  const std::string address = server.socket_path();
  const auto state = [&](const std::string& name) {
    return exposition{metrics.text()}.count("ratelimit_breaker_state", {{"address", address}, {"state", name}});
  };
  const auto changes = [&](const std::string& name, const std::string& error) {
    return exposition{metrics.text()}.count("ratelimit_breaker_changes_total",
                                            {{"address", address}, {"state", name}, {"error", error}});
  };
  limiter.check("client", "eu");
  CHECK(exposition{metrics.text()}.total("ratelimit_breaker_changes_total") == 0);
  server.kill();
  for (int i = 0; i < 5; ++i) limiter.check("client", "eu");
  CHECK(state("open") == 1);
  CHECK(state("closed") == 0);
  CHECK(changes("open", "refused") == 1);
  server.start();
  std::this_thread::sleep_for(probe_pause);
  CHECK(limiter.check("client", "eu").from == source::redis);
  CHECK(state("open") == 0);
  CHECK(state("half_open") == 0);
  CHECK(state("closed") == 1);
  CHECK(changes("half_open", "none") == 1);
  CHECK(changes("closed", "none") == 1);
}
