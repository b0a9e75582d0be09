// A master that sentinels name: by fake ones, and real ones through failovers.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "limits.hpp"
#include "load.hpp"
#include "support/fake_server.hpp"
#include "support/sentinel.hpp"
#include "support/wait.hpp"

namespace {

using namespace clusters;
using support::bytes;
using support::fake_server;
using support::words;

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

std::string master_at(const fake_server& server) {
  return "*2\r\n" + bulk("127.0.0.1") + bulk(std::to_string(server.port()));
}

const std::string is_master = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
const std::string is_replica = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";
const std::string read_only = "-READONLY You can't write against a read only replica.\r\n";

// A server that takes itself for a master, and counts.
fake_server::script master() {
  return [](const words& said) -> bytes {
    if (said.front() == "ROLE") return is_master;
    return said.front() == "EVALSHA" ? taken : "+OK\r\n";
  };
}

// A sentinel that names whatever `where` points at; nobody when that is null.
class fake_sentinel {
 public:
  explicit fake_sentinel(fake_server* where = nullptr) : names_{where} {}

  void name(fake_server& where) { names_ = &where; }
  fake_server& server() { return server_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_.port()); }

 private:
  std::atomic<fake_server*> names_;
  fake_server server_{[this](const words& said) -> bytes {
                        if (said.front() != "SENTINEL") return "+OK\r\n";
                        fake_server* const named = names_;
                        return named == nullptr ? "*-1\r\n" : master_at(*named);
                      },
                      support::listens::on_tcp};
};

std::string url_of(std::initializer_list<const fake_sentinel*> all) {
  std::string made = "redis+sentinel://";
  for (const fake_sentinel* one : all) made += (made.back() == '/' ? "" : ",") + one->address();
  return made + "/themaster";
}

int count(const fake_server& server, const std::string& name) {
  int heard = 0;
  for (const std::string& one : server.commands()) heard += one == name ? 1 : 0;
  return heard;
}

// Longer than the pause between two questions to the sentinels.
void let_pause_pass() {
  std::this_thread::sleep_for(150ms);
}

}  // namespace

TEST_CASE("sentinels are asked one after the other, and the one that knew is asked first the next time") {
  fake_server first{master(), support::listens::on_tcp}, second{master(), support::listens::on_tcp};
  fake_sentinel ignorant, knowing{&first};
  ratelimit::redis store{"redis+sentinel://127.0.0.1:1," + ignorant.address() + "," + knowing.address() + "/themaster"};
  const window limiter = limiter_on(store);
  check_taken(limiter.check("a"));
  check_taken(limiter.check("a"));
  CHECK(knowing.server().heard() == std::vector<words>{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "themaster"}});
  CHECK(ignorant.server().commands() == words{"SENTINEL"});
  CHECK(first.commands() == words{"ROLE", "EVALSHA", "EVALSHA"});
  CHECK(first.connections() == 1);
  // No connection to a sentinel is kept.
  support::wait_until([&] { return knowing.server().open_connections() + ignorant.server().open_connections() == 0; });
}

TEST_CASE("sentinels and servers have credentials of their own") {
  fake_server server{master(), support::listens::on_tcp};
  fake_sentinel one{&server};
  ratelimit::redis store{"redis+sentinel://app:secret@" + one.address() +
                         "/the%20master/3?sentinel_username=watcher&sentinel_password=p%26w"};
  check_taken(limiter_on(store).check("a"));
  CHECK(one.server().heard() ==
        std::vector<words>{{"AUTH", "watcher", "p&w"}, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "the master"}});
  CHECK(server.commands() == words{"AUTH", "SELECT", "ROLE", "EVALSHA"});
  CHECK(server.heard()[0] == words{"AUTH", "app", "secret"});
  CHECK(server.heard()[1] == words{"SELECT", "3"});
}

TEST_CASE("no sentinel helps: told why, without a storm of questions") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {"*-1\r\n", errc::cluster},  // no master of that name
           {"-NOAUTH Authentication required.\r\n", errc::permission},
           {"*2\r\n$9\r\n127.0.0.1\r\n$1\r\nx\r\n", errc::protocol},
           {"*1\r\n$9\r\n127.0.0.1\r\n", errc::protocol},
           {"+OK\r\n", errc::protocol},
       }) {
    CAPTURE(text);
    fake_server server{master(), support::listens::on_tcp};
    std::atomic<bool> ill{true};
    fake_server one{[&, said = text](const words&) -> bytes { return ill ? said : master_at(server); },
                    support::listens::on_tcp};
    ratelimit::redis store{"redis+sentinel://127.0.0.1:1,127.0.0.1:" + std::to_string(one.port()) + "/themaster"};
    const window limiter = limiter_on(store);
    for (int i = 0; i < 100; ++i) check_uncounted(limiter.check("a"), why);
    CHECK(one.connections() <= 5);
    ill = false;
    let_pause_pass();
    check_taken(limiter.check("a"));
  }
}

TEST_CASE("many threads that find no master yet ask for it once") {
  fake_server server{master(), support::listens::on_tcp};
  fake_sentinel one{&server};
  ratelimit::redis store{url_of({&one})};
  const window limiter = limiter_on(store);
  std::vector<std::thread> threads;
  std::atomic<int> counted{0};
  for (int i = 0; i < 16; ++i) threads.emplace_back([&] { counted += limiter.check("a").counted() ? 1 : 0; });
  for (auto& each : threads) each.join();
  CHECK(counted == 16);
  CHECK(one.server().connections() == 1);
  CHECK(count(server, "ROLE") == 1);
  CHECK(count(server, "EVALSHA") == 16);
  CHECK(server.connections() <= 4);
}

TEST_CASE("a sentinel whose word is old is not believed") {
  fake_server old{[](const words&) -> bytes { return is_replica; }, support::listens::on_tcp};
  fake_server present{master(), support::listens::on_tcp};
  fake_sentinel slow{&old}, quick{&present};
  ratelimit::redis store{url_of({&slow, &quick})};
  check_taken(limiter_on(store).check("a"));
  CHECK(old.commands() == words{"ROLE"});
  support::wait_until([&] { return old.open_connections() == 0; });

  ratelimit::redis misled{url_of({&slow})};
  check_uncounted(limiter_on(misled).check("a"), errc::read_only);
  CHECK(old.commands() == words{"ROLE", "ROLE"});
}

TEST_CASE("READONLY from a master demoted: the same check is counted by the new one, and the old one's links end") {
  std::atomic<bool> demoted{false};
  // Its user may not ask for the ROLE.
  fake_server old{[&](const words& said) -> bytes {
                    if (said.front() == "ROLE") return "-NOPERM this user has no permissions to run 'role'\r\n";
                    return demoted ? read_only : taken;
                  },
                  support::listens::on_tcp};
  fake_server present{master(), support::listens::on_tcp};
  fake_sentinel one{&old};
  ratelimit::redis store{url_of({&one})};
  const window limiter = limiter_on(store);
  check_taken(limiter.check("a"));
  demoted = true;
  one.name(present);
  let_pause_pass();
  const int before = count(old, "EVALSHA");
  check_taken(limiter.check("a"));
  CHECK(count(old, "EVALSHA") == before + 1);
  CHECK(count(present, "EVALSHA") == 1);
  support::wait_until([&] { return old.open_connections() == 0; });
}

TEST_CASE("READONLY, and nobody has taken over yet: told after a few tries") {
  std::atomic<bool> demoted{true};
  fake_server server{[&](const words& said) -> bytes {
                       if (said.front() == "ROLE") return is_master;
                       return demoted ? read_only : taken;
                     },
                     support::listens::on_tcp};
  fake_sentinel one{&server};
  ratelimit::redis store{url_of({&one})};
  const window limiter = limiter_on(store);
  check_uncounted(limiter.check("a"), errc::read_only);
  CHECK(count(server, "EVALSHA") == 4);
  demoted = false;
  check_taken(limiter.check("a"));
  CHECK(server.connections() == 1);
}

TEST_CASE("an unknown script is sent whole, and after READONLY to the new master too") {
  fake_server present{[&](const words& said) -> bytes {
                        if (said.front() == "ROLE") return is_master;
                        return said.front() == "EVAL" ? taken : "-NOSCRIPT No matching script.\r\n";
                      },
                      support::listens::on_tcp};
  fake_sentinel one;
  fake_server old{[&](const words& said) -> bytes {
                    if (said.front() == "ROLE") return is_master;
                    if (said.front() == "EVALSHA") return "-NOSCRIPT No matching script.\r\n";
                    one.name(present);
                    std::this_thread::sleep_for(150ms);
                    return read_only;
                  },
                  support::listens::on_tcp};
  one.name(old);
  ratelimit::redis store{url_of({&one})};
  check_taken(limiter_on(store).check("a"));
  CHECK(old.commands() == words{"ROLE", "EVALSHA", "EVAL"});
  CHECK(present.commands() == words{"ROLE", "EVAL"});
}

TEST_CASE("a lost connection: not asked again, but the master is looked for") {
  fake_server present{master(), support::listens::on_tcp};
  std::atomic<bool> dying{false};
  fake_server old{[&](const words& said) -> bytes {
                    if (said.front() == "ROLE") return is_master;
                    return dying ? bytes{"", true} : bytes{taken};
                  },
                  support::listens::on_tcp};
  fake_sentinel one{&old};
  ratelimit::redis store{url_of({&one})};
  const window limiter = limiter_on(store);
  check_taken(limiter.check("a"));
  dying = true;
  one.name(present);
  let_pause_pass();
  check_uncounted(limiter.check("a"), errc::closed);
  CHECK(count(present, "EVALSHA") == 0);
  check_taken(limiter.check("a"));
  CHECK(count(present, "EVALSHA") == 1);
  support::wait_until([&] { return old.open_connections() == 0; });
}

TEST_CASE("a master that refuses connections: the same check is counted by the new one") {
  fake_server present{master(), support::listens::on_tcp};
  fake_sentinel one;
  auto old = std::make_unique<fake_server>(master(), support::listens::on_tcp);
  one.name(*old);
  ratelimit::redis store{url_of({&one})};
  const window limiter = limiter_on(store);
  check_taken(limiter.check("a"));
  one.name(present);
  old.reset();
  let_pause_pass();
  check_taken(limiter.check("a"));
  CHECK(count(present, "EVALSHA") == 1);
}

TEST_CASE("the breaker of a master that was replaced does not stay open") {
  std::atomic<bool> ill{false};
  fake_server old{[&](const words& said) -> bytes {
                    if (ill) return {"", true};
                    return said.front() == "ROLE" ? is_master : taken;
                  },
                  support::listens::on_tcp};
  fake_server present{master(), support::listens::on_tcp};
  fake_sentinel one{&old};
  const std::string at_old = "127.0.0.1:" + std::to_string(old.port());
  std::vector<std::pair<std::string, ratelimit::breaker_state>> heard;
  ratelimit::redis_options to = ratelimit::parse_redis_url(url_of({&one}));
  to.failures = 1;
  to.observer.breaker = [&](const ratelimit::breaker_change& c) { heard.emplace_back(c.address, c.state); };
  ratelimit::redis store{to};
  const window limiter = limiter_on(store);
  check_taken(limiter.check("a"));
  ill = true;
  one.name(present);
  let_pause_pass();
  check_uncounted(limiter.check("a"), errc::closed);
  using ratelimit::breaker_state;
  CHECK(heard == std::vector{std::pair{at_old, breaker_state::open}});
  check_taken(limiter.check("a"));
  CHECK(count(present, "EVALSHA") == 1);
  CHECK(heard == std::vector{std::pair{at_old, breaker_state::open}, std::pair{at_old, breaker_state::closed}});
}

TEST_CASE("a sentinel that never answers leaves the others their share of the time") {
  fake_server server{master(), support::listens::on_tcp};
  fake_server silent{[](const words&) -> bytes { return ""; }, support::listens::on_tcp};
  fake_sentinel one{&server};
  ratelimit::redis store{"redis+sentinel://127.0.0.1:" + std::to_string(silent.port()) + "," + one.address() +
                         "/themaster"};
  check_taken(limiter_on(store, 300ms).check("a"));
  support::wait_until([&] { return silent.commands() == words{"SENTINEL"}; });
}

TEST_CASE("a forked child finds its own way, also when its parent was just asking") {
  std::atomic<bool> silent{true};
  fake_server server{master(), support::listens::on_tcp};
  fake_server sentinel{[&](const words&) -> bytes { return silent ? std::string{} : master_at(server); },
                       support::listens::on_tcp};
  ratelimit::redis store{"redis+sentinel://127.0.0.1:" + std::to_string(sentinel.port()) + "/themaster"};
  const window limiter = limiter_on(store, 600ms);
  ratelimit::decision told;
  std::thread asking{[&] { told = limiter.check("a"); }};
  support::wait_until([&] { return !sentinel.commands().empty(); });
  const auto child = [&] {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(limiter_on(store).check("a").counted() ? 0 : 1);
    int status = -1;
    ::waitpid(pid, &status, 0);
    return status;
  };
  silent = false;
  CHECK(child() == 0);
  CHECK(count(sentinel, "SENTINEL") == 2);
  asking.join();
  check_uncounted(told, errc::timeout);
  let_pause_pass();
  check_taken(limiter.check("a"));
  // And when its parent has a master and connections.
  CHECK(child() == 0);
  check_taken(limiter.check("a"));
  CHECK(server.connections() == 3);
}

TEST_CASE("real sentinels: one after the other goes, and only without any nothing new is learned") {
  support::sentinel_group group{{.replicas = 0, .sentinels = 3, .password = "data", .sentinel_password = "watch"}};
  const auto store = [&](const std::string& query) { return std::make_unique<ratelimit::redis>(group.url() + query); };
  std::int64_t used = 0;
  {
    const auto wrong = store("?sentinel_password=wrong"), none = store("");
    check_uncounted(limiter_on(*wrong).check("a"), errc::permission);
    check_uncounted(limiter_on(*none).check("a"), errc::permission);
  }
  const auto first = store("?sentinel_password=watch");
  check_taken(limiter_on(*first).check("a"), ++used);
  for (std::size_t gone = 0; gone < 2; ++gone) {
    group.sentinel(gone).kill();
    const auto next = store("?sentinel_password=watch");
    check_taken(limiter_on(*next).check("a"), ++used);
  }
  group.sentinel(2).kill();
  const auto late = store("?sentinel_password=watch");
  check_uncounted(limiter_on(*late).check("a"), errc::refused);
  // Who knows the master needs no sentinel.
  check_taken(limiter_on(*first).check("a"), ++used);
}

TEST_CASE("sentinel failovers under load: nothing is counted twice, and the new master is found") {
  support::sentinel_group group;
  const long descriptors = open_descriptors();
  std::vector<std::pair<const char*, account>> rows;
  {
    ratelimit::redis store{group.url()};
    const window limiter = limiter_on(store, 50ms, 1'000'000'000);
    const auto ask = [&](const std::string& identity, long) { return limiter.check(identity); };
    const auto fail_over = [&](const char* name, std::size_t from, const auto& strike, const auto& mend) {
      const std::size_t to = 1 - from;
      load run{identities(40, name), 4, 50ms, memory::may_lose, ask};
      support::wait_until([&] { return run.counted_so_far() > 200; });
      run.fault();
      strike(group.node(from));
      support::wait_until([&] { return group.is_master(to); }, 180s);
      support::wait_until([&] { return limiter.check("probe").counted(); }, 180s);
      run.recovered();
      const long before = run.counted_so_far();
      support::wait_until([&] { return run.counted_so_far() > before + 200; });
      mend(group.node(from));
      support::wait_until([&] { return group.is_synced_replica(from); }, 180s);
      rows.emplace_back(name, run.stop());
      // It is the new master that counts: the old one has no client left that is not a sentinel or a replica.
      CHECK(group.node(from).command({"CLIENT", "LIST", "TYPE", "NORMAL"}).text.find("cmd=evalsha") ==
            std::string::npos);
    };
    const auto nothing = [](support::server&) {};
    fail_over(
        "sentinel failover under load: kill -9", 0, [](support::server& s) { s.kill(); },
        [](support::server& s) { s.start(); });
    fail_over(
        "sentinel failover under load: SIGSTOP", 1, [](support::server& s) { s.freeze(); },
        [](support::server& s) { s.thaw(); });
    std::this_thread::sleep_for(1s);
    fail_over(
        "sentinel failover under load: by command", 0,
        [&](support::server&) {
          support::wait_until([&] {
            return group.sentinel(0).command({"SENTINEL", "FAILOVER", "themaster"}).text == "OK";
          });
        },
        nothing);
  }
  const long leaked = open_descriptors() - descriptors;
  for (auto& [name, row] : rows) {
    row.leaked = leaked;
    row.report(name);
    CHECK(row.wrong == 0);
    CHECK(row.doubled == 0);
  }
  CHECK(leaked == 0);
}
