// The hash tag, as the server's own cluster code reads it.
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "monitor.hpp"
#include "rows.hpp"

namespace {

using namespace recipes;

support::server& cluster_server() {
  static support::server one{{.tcp = true, .config = {"--cluster-enabled", "yes"}}};
  return one;
}

// What CLUSTER KEYSLOT says of each key, a thousand a time.
std::vector<long long> slots(const std::vector<std::string>& keys) {
  static const std::string script =
      "local told = {} for i, key in ipairs(ARGV) do told[i] = redis.call('CLUSTER', 'KEYSLOT', key) end return told";
  std::vector<long long> told;
  for (std::size_t i = 0; i < keys.size(); i += 1000) {
    std::vector<std::string> words{"EVAL", script, "0"};
    for (std::size_t j = i; j < std::min(i + 1000, keys.size()); ++j) words.push_back(keys[j]);
    for (const auto& one : cluster_server().command(words).items) told.push_back(one.number);
  }
  return told;
}

// XMODEM's CRC16, by which a cluster spreads keys (Redis cluster specification, "Key distribution model").
long long slot_of_tag(std::string_view tag) {
  std::uint32_t crc = 0;
  for (const char c : tag) {
    crc ^= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x11021 : 0);
  }
  return crc % 16384;
}

std::string key_of(std::string_view tag, std::string_view name, ratelimit::scope by, std::string_view identity,
                   std::string_view region) {
  const std::string head = ratelimit::detail::key_head("ratelimit:", tag, name);
  return std::string{ratelimit::detail::key{head, by, identity, region}.view()};
}

// What stands between the braces: the first that opens and the first that closes after it.
std::string_view tag_of(std::string_view key) {
  const auto open = key.find('{');
  return key.substr(open + 1, key.find('}', open) - open - 1);
}

}  // namespace

TEST_CASE("The server finds hash tags where the cluster specification says", "[recipes]") {
  CHECK(slots({"rl:{}user{42}", "rl:{user", "rl:}x{y", "foo{{bar}}zap", "rl:{a}b}:cur", "rl:{", "rl:{}:cur",
               "rl:{}:prev"}) == std::vector<long long>{2638, 4942, 2942, 4015, 15495, 9397, 3762, 3036});
  CHECK(slot_of_tag("{bar") == 4015);
  CHECK(slot_of_tag("a") == 15495);
}

// A hundred thousand identities of the bytes that tags are made of: no identity ends or empties the tag, so all keys
// of one identity are in one slot, whatever the limit.
TEST_CASE("All keys of one identity are in one slot", "[recipes]") {
  std::minstd_rand random{16384};
  std::vector<std::string> identities{"}", "}x", "{", "a}b", "{}", "}{", "{{}}", "user{42}"};
  while (identities.size() < 100'000) {
    std::string made(1 + random() % 8, ' ');
    for (char& c : made) c = "{}ab"[random() % 4];
    identities.push_back(std::move(made));
  }
  std::vector<std::string> logs, counters;
  for (const auto& identity : identities) {
    logs.push_back(key_of("log", "minute", ratelimit::scope::identity_and_region, identity, identity));
    counters.push_back(key_of("counter", "{day}", ratelimit::scope::identity, identity, ""));
  }
  const auto first = slots(logs), second = slots(counters);
  REQUIRE(first.size() == identities.size());
  CHECK(first == second);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < identities.size(); ++i) wrong += first[i] != slot_of_tag(tag_of(logs[i]));
  CHECK(wrong == 0);
  // They are spread: had the tag been empty or cut, there would be far fewer.
  CHECK(std::set<long long>(first.begin(), first.end()).size() > 10'000);
}

// Every slot on one node: a key that a script does not declare, or one in another slot, is refused there as well.
TEST_CASE("A cluster's node refuses no script", "[recipes]") {
  auto& server = cluster_server();
  REQUIRE(server.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).text == "OK");
  for (int i = 0; i < 1000 && server.command({"CLUSTER", "INFO"}).text.find("cluster_state:ok") == std::string::npos;
       ++i)
    std::this_thread::sleep_for(10ms);
  struct {
    ratelimit::redis store;
    manual_clock clock{w0};
  } b{.store = ratelimit::redis{server.url()}};
  monitor watch{server};
  std::minstd_rand random{3};
  with_each(b, 3, 600s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    for (int i = 0; i < 1000; ++i) {
      std::string identity(1 + random() % 12, ' ');
      for (char& c : identity) c = static_cast<char>(random() % 256);
      for (const std::int64_t cost : {1, 2, 1}) {
        const auto d = limiter.check(identity, "eu", cost);
        CHECK(d.error == std::error_code{});
        CHECK(d.from == ratelimit::source::redis);
        CHECK(d.remaining >= 0);
      }
    }
    // Each script names one key, and touches no other.
    for (const auto& one : watch.commands()) {
      if (one.by_script) {
        CHECK(one.words.at(1).starts_with(std::string{"ratelimit:"} + tag + ":recipe:{"));
      } else if (one.name() == "EVALSHA" || one.name() == "EVAL") {
        CHECK(one.words.at(2) == "1");
        CHECK(one.words.at(3).starts_with(std::string{"ratelimit:"} + tag + ":recipe:{"));
      }
    }
  });
}
