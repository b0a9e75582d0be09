// MOVED, ASK, TRYAGAIN and what else a cluster's node may say, by fake nodes.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <ratelimit/all_of.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "limits.hpp"
#include "support/fake_server.hpp"
#include "support/wait.hpp"

namespace {

using namespace clusters;
using support::bytes;
using support::fake_server;
using support::words;

// Two nodes, of which each has half of the slots by the map that they tell. What they answer to a script can be
// changed.
class two_nodes {
 public:
  using answer = std::function<bytes()>;

  two_nodes() { tell({0, 1}); }

  fake_server& operator[](std::size_t i) { return i == 0 ? first_ : second_; }
  std::string port(std::size_t i) { return std::to_string((*this)[i].port()); }
  std::string to(std::size_t i) { return "127.0.0.1:" + port(i) + "\r\n"; }
  std::string url() { return "redis+cluster://127.0.0.1:" + port(0); }

  // Which node has the lower and the upper half from now on.
  void tell(std::pair<std::size_t, std::size_t> owners) {
    const auto range = [&](const char* slots, std::size_t owner) {
      return std::string{"*3\r\n"} + slots + "*3\r\n$9\r\n127.0.0.1\r\n:" + port(owner) + "\r\n$2\r\nid\r\n";
    };
    const std::lock_guard lock{mutex_};
    map_ = "*2\r\n" + range(":0\r\n:8191\r\n", owners.first) + range(":8192\r\n:16383\r\n", owners.second);
  }
  void answer_with(std::size_t i, answer made) {
    const std::lock_guard lock{mutex_};
    answers_[i] = std::move(made);
  }

  // How often a node heard a command.
  int count(std::size_t i, const std::string& name) {
    int heard = 0;
    for (const std::string& one : (*this)[i].commands()) heard += one == name ? 1 : 0;
    return heard;
  }

 private:
  bytes say(std::size_t i, const words& said) {
    const std::lock_guard lock{mutex_};
    if (said.front() == "CLUSTER") return map_;
    if (said.front() == "ASKING") return "+OK\r\n";
    return answers_[i] ? answers_[i]() : bytes{taken};
  }

  std::mutex mutex_{};
  std::string map_{};
  answer answers_[2]{};
  fake_server first_{[this](const words& said) { return say(0, said); }, support::listens::on_tcp};
  fake_server second_{[this](const words& said) { return say(1, said); }, support::listens::on_tcp};
};

const std::string low = identity_within(0, 8191), high = identity_within(8192, 16383);
const std::string slot_of_low = std::to_string(slot_of_identity(low));

// `text` for the first `times`, then what a script that took one answers.
two_nodes::answer first(int times, std::string text) {
  return [times, text = std::move(text), said = 0]() mutable { return bytes{said++ < times ? text : taken}; };
}

}  // namespace

TEST_CASE("each key is asked of its slot's node, over connections of its own") {
  two_nodes nodes;
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  check_taken(limiter.check(low));
  check_taken(limiter.check(high));
  check_taken(limiter.check(high));
  CHECK(nodes[0].commands() == words{"CLUSTER", "EVALSHA"});
  CHECK(nodes[0].heard().front() == words{"CLUSTER", "SLOTS"});
  CHECK(nodes[1].commands() == words{"EVALSHA", "EVALSHA"});
  CHECK(nodes[0].connections() == 1);
  CHECK(nodes[1].connections() == 1);
}

TEST_CASE("MOVED is followed at once, and remembered") {
  two_nodes nodes;
  nodes.answer_with(0, [&] { return bytes{"-MOVED " + slot_of_low + " " + nodes.to(1)}; });
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  check_taken(limiter.check(low));
  check_taken(limiter.check(low));
  check_taken(limiter.check(low));
  CHECK(nodes.count(0, "EVALSHA") == 1);
  CHECK(nodes.count(1, "EVALSHA") == 3);
  CHECK(nodes[1].connections() == 1);
}

TEST_CASE("MOVED by a node that does not know its own host means that host") {
  two_nodes nodes;
  nodes.answer_with(0, [&] { return bytes{"-MOVED " + slot_of_low + " :" + nodes.port(1) + "\r\n"}; });
  ratelimit::redis store{nodes.url()};
  check_taken(limiter_on(store).check(low));
}

TEST_CASE("after a MOVED one thread learns the map anew, not each of them") {
  two_nodes nodes;
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  check_taken(limiter.check(low));
  // The upper half keeps its node, so that what it is asked tells nothing.
  nodes.tell({1, 1});
  nodes.answer_with(0, [&] { return bytes{"-MOVED " + slot_of_low + " " + nodes.to(1)}; });
  std::this_thread::sleep_for(150ms);  // longer than the pause between two lessons
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 5; ++n) {
        const auto d = limiter.check(low);
        wrong += d.error || d.used != 1 ? 1 : 0;
      }
    });
  for (auto& one : threads) one.join();
  CHECK(wrong == 0);
  CHECK(nodes.count(1, "EVALSHA") == 40);
  CHECK(nodes.count(0, "EVALSHA") <= 9);
  CHECK(nodes.count(0, "CLUSTER") + nodes.count(1, "CLUSTER") == 2);
  // The new map is in use: also slots that nobody was sent away from.
  check_taken(limiter.check(identity_within(0, 8191, 1)));
  CHECK(nodes.count(1, "EVALSHA") == 41);
}

TEST_CASE("ASK is followed this once, with ASKING on the same connection before the script") {
  two_nodes nodes;
  nodes.answer_with(0, [&] { return bytes{"-ASK " + slot_of_low + " " + nodes.to(1)}; });
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  check_taken(limiter.check(low));
  check_taken(limiter.check(low));
  CHECK(nodes.count(0, "EVALSHA") == 2);
  CHECK(nodes[1].commands() == words{"ASKING", "EVALSHA", "ASKING", "EVALSHA"});
  CHECK(nodes[1].connections() == 1);
  CHECK(nodes.count(0, "CLUSTER") == 1);
}

TEST_CASE("ASK to a node without slots dials it once") {
  two_nodes nodes;
  nodes.tell({0, 0});
  nodes.answer_with(0, [&] { return bytes{"-ASK " + slot_of_low + " " + nodes.to(1)}; });
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  for (int i = 0; i < 3; ++i) check_taken(limiter.check(low));
  CHECK(nodes[1].connections() == 1);
}

TEST_CASE("a script that is unknown where ASK led is sent there whole, with ASKING again") {
  two_nodes nodes;
  nodes.answer_with(0, [&] { return bytes{"-ASK " + slot_of_low + " " + nodes.to(1)}; });
  nodes.answer_with(1, first(1, "-NOSCRIPT No matching script.\r\n"));
  ratelimit::redis store{nodes.url()};
  check_taken(limiter_on(store).check(low));
  CHECK(nodes[0].commands() == words{"CLUSTER", "EVALSHA"});
  CHECK(nodes[1].commands() == words{"ASKING", "EVALSHA", "ASKING", "EVAL"});
}

TEST_CASE("what will pass is asked again after a pause, and counted once") {
  for (const std::string& text :
       {std::string{"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"},
        std::string{"-CLUSTERDOWN Hash slot not served\r\n"}, std::string{"-MASTERDOWN Link with MASTER is down\r\n"},
        std::string{"-READONLY You can't write against a read only replica.\r\n"}}) {
    CAPTURE(text);
    two_nodes nodes;
    ratelimit::redis store{nodes.url()};
    const window limiter = limiter_on(store);
    nodes.answer_with(0, first(3, text));
    check_taken(limiter.check(low));
    CHECK(nodes.count(0, "EVALSHA") == 4);
    CHECK(nodes[0].connections() == 1);

    nodes.answer_with(0, [&] { return bytes{text}; });
    check_uncounted(limiter.check(low), text.starts_with("-READONLY") ? errc::read_only : errc::cluster);
    CHECK(nodes.count(0, "EVALSHA") == 4 + 4);
    // The deadline ends it before the tries do.
    check_uncounted(limiter_on(store, 4ms).check(low), text.starts_with("-READONLY") ? errc::read_only : errc::cluster);
    CHECK(nodes.count(0, "EVALSHA") <= 4 + 4 + 3);
    nodes.answer_with(0, {});
    check_taken(limiter.check(low));
    CHECK(nodes[0].connections() == 1);
  }
}

TEST_CASE("redirections that go round end") {
  two_nodes nodes;
  nodes.answer_with(0, [&] { return bytes{"-MOVED " + slot_of_low + " " + nodes.to(1)}; });
  nodes.answer_with(1, [&] { return bytes{"-MOVED " + slot_of_low + " " + nodes.to(0)}; });
  ratelimit::redis store{nodes.url()};
  check_uncounted(limiter_on(store).check(low), errc::cluster);
  CHECK(nodes.count(0, "EVALSHA") + nodes.count(1, "EVALSHA") == 17);
  CHECK(nodes[0].connections() == 1);
  CHECK(nodes[1].connections() == 1);
  nodes.answer_with(0, {});
  check_taken(limiter_on(store).check(low));
}

TEST_CASE("other refusals are told, once") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, errc>>{
           {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", errc::cluster},
           {"-MOVED nonsense\r\n", errc::cluster},
           {"-ASK 1 ?:7000\r\n", errc::cluster},
           {"-NOPERM this user has no permissions\r\n", errc::permission},
           {"-OOM command not allowed\r\n", errc::out_of_memory},
           {"+OK\r\n", errc::protocol},
       }) {
    CAPTURE(text);
    two_nodes nodes;
    nodes.answer_with(0, [&, said = text] { return bytes{said}; });
    ratelimit::redis store{nodes.url()};
    check_uncounted(limiter_on(store).check(low), why);
    CHECK(nodes.count(0, "EVALSHA") == 1);
  }
}

TEST_CASE("a reply that is lost is never asked for again, and the map is learned anew") {
  two_nodes nodes;
  nodes.answer_with(0, [] { return bytes{"", true}; });
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  check_uncounted(limiter.check(low), errc::closed);
  CHECK(nodes.count(0, "EVALSHA") == 1);
  nodes.tell({1, 1});
  std::this_thread::sleep_for(150ms);
  check_taken(limiter.check(low));
  CHECK(nodes.count(0, "EVALSHA") == 1);
  CHECK(nodes.count(1, "EVALSHA") == 1);
}

TEST_CASE("a node that refuses connections is looked for elsewhere by the same check") {
  auto doomed = std::make_unique<two_nodes>();
  two_nodes nodes;
  const std::string gone = doomed->port(0);
  std::atomic<bool> moved{false};
  fake_server seed{[&](const words& said) -> bytes {
                     if (said.front() != "CLUSTER") return taken;
                     return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + (moved ? nodes.port(0) : gone) +
                            "\r\n";
                   },
                   support::listens::on_tcp};
  ratelimit::redis store{"redis+cluster://127.0.0.1:" + std::to_string(seed.port())};
  const window limiter = limiter_on(store);
  check_taken(limiter.check(low));
  CHECK(doomed->count(0, "EVALSHA") == 1);
  moved = true;
  nodes.tell({0, 0});
  std::this_thread::sleep_for(150ms);
  const int port = (*doomed)[0].port();
  CHECK(std::to_string(port) == gone);
  doomed.reset();
  const auto d = limiter.check(low);
  // The idle connection was closed: noticed before anything was sent, so that nothing is lost.
  check_taken(d);
  CHECK(nodes.count(0, "EVALSHA") == 1);
}

TEST_CASE("no node knows the slots: told, and found when one does") {
  std::atomic<bool> knows{false};
  fake_server node{[&](const words& said) -> bytes {
                     if (said.front() != "CLUSTER") return taken;
                     if (!knows) return "-ERR This instance has cluster support disabled\r\n";
                     return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:" + std::to_string(node.port()) + "\r\n";
                   },
                   support::listens::on_tcp};
  ratelimit::redis store{"redis+cluster://127.0.0.1:1,127.0.0.1:" + std::to_string(node.port())};
  const window limiter = limiter_on(store);
  for (int i = 0; i < 100; ++i) check_uncounted(limiter.check(low), errc::cluster);
  CHECK(node.commands().size() <= 5);  // an outage makes no storm
  knows = true;
  std::this_thread::sleep_for(150ms);
  check_taken(limiter.check(low));
}

TEST_CASE("a batch goes to each node in one pipeline, and its answers keep their order") {
  two_nodes nodes;
  nodes.answer_with(0, [] { return bytes{"*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:1\r\n"}; });
  nodes.answer_with(1, [] { return bytes{"*5\r\n:3\r\n:5\r\n:0\r\n:0\r\n:2\r\n"}; });
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  const std::vector<ratelimit::call> calls{{high}, {low}, {low}, {high}, {low}};
  std::vector<std::int64_t> used;
  for (const auto& d : limiter.check_many(calls)) {
    CHECK(d.error == std::error_code{});
    used.push_back(d.used);
  }
  CHECK(used == std::vector<std::int64_t>{2, 1, 1, 2, 1});
  CHECK(nodes[0].commands() == words{"CLUSTER", "EVALSHA", "EVALSHA", "EVALSHA"});
  CHECK(nodes[1].commands() == words{"EVALSHA", "EVALSHA"});
}

TEST_CASE("one node that is silent leaves the others' part of a batch answered") {
  two_nodes nodes;
  ratelimit::redis store{nodes.url()};
  check_taken(limiter_on(store).check(low));
  check_taken(limiter_on(store).check(high));
  nodes.answer_with(0, [] { return bytes{""}; });
  const std::vector<ratelimit::call> calls{{low}, {high}, {low}};
  const auto told = limiter_on(store, 300ms).check_many(calls);
  check_uncounted(told[0], errc::timeout);
  check_taken(told[1]);
  check_uncounted(told[2], errc::timeout);
}

TEST_CASE("only the part of a batch that was sent away is asked again") {
  two_nodes nodes;
  ratelimit::redis store{nodes.url()};
  const window limiter = limiter_on(store);
  nodes.answer_with(0, first(1, "-MOVED " + slot_of_low + " " + nodes.to(1)));
  const std::string other = identity_within(0, 8191, 1);
  const std::vector<ratelimit::call> calls{{low}, {other}, {high}};
  for (const auto& d : limiter.check_many(calls)) check_taken(d);
  CHECK(nodes.count(0, "EVALSHA") == 2);
  CHECK(nodes.count(1, "EVALSHA") == 2);
}

TEST_CASE("limits whose keys share a slot are one script, others are asked one after the other") {
  two_nodes nodes;
  ratelimit::redis store{nodes.url()};
  const auto by = [&](const char* name, ratelimit::scope scope) {
    return window{store,
                  {.name = name, .limit = 10, .window = 24h, .on_failure = fail::closed, .by = scope, .deadline = 5s}};
  };
  const ratelimit::all_of joint{by("a", ratelimit::scope::identity_and_region), by("b", ratelimit::scope::identity)};
  nodes.answer_with(0, [] { return bytes{"*3\r\n:5\r\n:1\r\n:1\r\n"}; });
  const auto d = joint.check(low, "eu");
  CHECK(d.error == std::error_code{});
  CHECK(d.parts[0].used == 1);
  CHECK(d.parts[1].used == 1);
  CHECK(nodes.count(0, "EVALSHA") == 1);
  CHECK(nodes.count(1, "EVALSHA") == 0);

  nodes.answer_with(0, {});
  const ratelimit::all_of apart{by("a", ratelimit::scope::identity), by("c", ratelimit::scope::region)};
  const int before = nodes.count(0, "EVALSHA") + nodes.count(1, "EVALSHA");
  const auto e = apart.check(low, "eu");
  CHECK(e.error == std::error_code{});
  CHECK(e.parts[0].used == 1);
  CHECK(e.parts[1].used == 1);
  CHECK(nodes.count(0, "EVALSHA") + nodes.count(1, "EVALSHA") == before + 2);
}
