// Slots of keys, and what is read of CLUSTER SLOTS and of redirections.
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <ratelimit/redis/slot.hpp>
#include <ratelimit/redis/slot_map.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "support/server.hpp"

namespace {

using ratelimit::redis_address;
using ratelimit::detail::read_redirection;
using ratelimit::detail::redirection;
using ratelimit::detail::slot_of;
using ratelimit::detail::slot_range;

static_assert(slot_of("foo{{bar}}zap") == 4015);

// What a server says of each key, a thousand a time.
std::vector<std::uint16_t> slots_told(support::server& node, const std::vector<std::string>& keys) {
  const std::string script =
      "local told = {} for i, key in ipairs(ARGV) do told[i] = redis.call('CLUSTER', 'KEYSLOT', key) end return told";
  std::vector<std::uint16_t> told;
  for (std::size_t i = 0; i < keys.size(); i += 1000) {
    support::words said{"EVAL", script, "0"};
    said.insert(said.end(), keys.begin() + static_cast<std::ptrdiff_t>(i),
                keys.begin() + static_cast<std::ptrdiff_t>(std::min(i + 1000, keys.size())));
    for (const support::reply& one : node.command(said).items) told.push_back(static_cast<std::uint16_t>(one.number));
  }
  return told;
}

// What is read of a reply that comes as these bytes from 192.0.2.1:7000.
std::optional<std::vector<slot_range>> read(std::string_view text) {
  const ratelimit::detail::reader parser = ratelimit::detail::make_reader();
  REQUIRE(redisReaderFeed(parser.get(), text.data(), text.size()) == REDIS_OK);
  void* raw = nullptr;
  REQUIRE(redisReaderGetReply(parser.get(), &raw) == REDIS_OK);
  REQUIRE(raw != nullptr);
  const ratelimit::detail::reply got{static_cast<redisReply*>(raw)};
  return ratelimit::detail::read_slots(*got, {"192.0.2.1", 7000});
}

using ranges = std::vector<slot_range>;

}  // namespace

TEST_CASE("a key's slot is the one that a server tells") {
  support::server node{{.tcp = true, .config = {"--cluster-enabled", "yes"}}};
  const std::vector<std::string> known{
      "rl:{}user{42}", "rl:{user",   "rl:}x{y", "foo{{bar}}zap", "rl:{a}b}:cur", "rl:{",
      "rl:{}:cur",     "rl:{}:prev", "",        "123456789"};
  const std::vector<std::uint16_t> slots{2638, 4942, 2942, 4015, 15495, 9397, 3762, 3036, 0, 12739};
  CHECK(slots_told(node, known) == slots);
  for (std::size_t i = 0; i < known.size(); ++i) CHECK(slot_of(known[i]) == slots[i]);

  std::minstd_rand random{31};
  std::vector<std::string> keys;
  while (keys.size() < 100'000) {
    std::string made(random() % 12, ' ');
    for (char& c : made) c = "{}ab"[random() % 4];
    keys.push_back(std::move(made));
  }
  for (int byte = 0; byte < 256; ++byte) keys.push_back({'k', static_cast<char>(byte), 'y'});
  const std::vector<std::uint16_t> told = slots_told(node, keys);
  REQUIRE(told.size() == keys.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) wrong += slot_of(keys[i]) != told[i];
  CHECK(wrong == 0);
}

TEST_CASE("CLUSTER SLOTS is read as every version writes it") {
  const std::string range = "*1\r\n*3\r\n:0\r\n:16383\r\n";
  const auto all_at = [](const char* host, int port) { return ranges{{0, 16383, {host, port}}}; };
  // Redis 3: host and port.
  CHECK(read(range + "*2\r\n$12\r\n198.51.100.7\r\n:7001\r\n") == all_at("198.51.100.7", 7001));
  // Redis 4: and an id. Redis 7: and a list of more. Some day: more still.
  CHECK(read(range + "*3\r\n$12\r\n198.51.100.7\r\n:7001\r\n$2\r\nid\r\n") == all_at("198.51.100.7", 7001));
  CHECK(read(range + "*4\r\n$12\r\n198.51.100.7\r\n:7001\r\n$2\r\nid\r\n*2\r\n$8\r\nhostname\r\n$1\r\nh\r\n") ==
        all_at("198.51.100.7", 7001));
  CHECK(read(range + "*6\r\n$12\r\n198.51.100.7\r\n:7001\r\n$2\r\nid\r\n*0\r\n:1\r\n*1\r\n$-1\r\n") ==
        all_at("198.51.100.7", 7001));
  // Replicas, and what is no replica, after the master.
  CHECK(read("*1\r\n*6\r\n:5\r\n:6\r\n*2\r\n$1\r\nm\r\n:1\r\n*2\r\n$1\r\nr\r\n:2\r\n$3\r\nnew\r\n:9\r\n") ==
        ranges{{5, 6, {"m", 1}}});
  CHECK(read(range + "*2\r\n$11\r\n2001:db8::7\r\n:7001\r\n") == all_at("2001:db8::7", 7001));
  // A node that does not know how it is reached.
  CHECK(read(range + "*2\r\n$0\r\n\r\n:7001\r\n") == all_at("192.0.2.1", 7001));
  CHECK(read(range + "*4\r\n$-1\r\n:7001\r\n$2\r\nid\r\n*0\r\n") == all_at("192.0.2.1", 7001));
  CHECK(read("*2\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\n?\r\n:1\r\n*3\r\n:2\r\n:2\r\n*2\r\n$1\r\nm\r\n:1\r\n") ==
        ranges{{2, 2, {"m", 1}}});

  for (const std::string& wrong : std::vector<std::string>{
           "*0\r\n",
           "$-1\r\n",
           "+OK\r\n",
           "*1\r\n:1\r\n",
           "*1\r\n*2\r\n:0\r\n:1\r\n",
           "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nm\r\n:1\r\n",
           "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nm\r\n:1\r\n",
           "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*2\r\n$1\r\nm\r\n:1\r\n",
           range + "$1\r\nm\r\n",
           range + "*1\r\n$1\r\nm\r\n",
           range + "*2\r\n$1\r\nm\r\n:0\r\n",
           range + "*2\r\n$1\r\nm\r\n:65536\r\n",
           range + "*2\r\n$1\r\nm\r\n$1\r\n1\r\n",
           range + "*2\r\n:1\r\n:1\r\n",
       }) {
    CAPTURE(wrong);
    CHECK(read(wrong) == std::nullopt);
  }
}

TEST_CASE("redirections are read, and what is none is not") {
  const redis_address asked{"192.0.2.1", 7000};
  const auto is = [&](std::string_view text, bool asking, std::uint16_t slot, redis_address to) {
    return read_redirection(text, asked) == redirection{asking, slot, std::move(to)};
  };
  CHECK(is("MOVED 3999 198.51.100.7:6381", false, 3999, {"198.51.100.7", 6381}));
  CHECK(is("ASK 0 node.example.com:6381", true, 0, {"node.example.com", 6381}));
  CHECK(is("MOVED 16383 2001:db8::7:6381", false, 16383, {"2001:db8::7", 6381}));
  CHECK(is("MOVED 16383 [2001:db8::7]:6381", false, 16383, {"2001:db8::7", 6381}));
  CHECK(is("MOVED 1 :6381", false, 1, {"192.0.2.1", 6381}));
  for (const char* other : {"MOVED", "MOVED ", "MOVED 1", "MOVED 1 h", "MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 h:65536",
                            "MOVED 16384 h:1", "MOVED -1 h:1", "MOVED x h:1", "MOVED  h:1", "ASK", "ASKING 1 h:1",
                            "MOVED 1 ?:6381", "TRYAGAIN Multiple keys", "CLUSTERDOWN The cluster is down", ""}) {
    CAPTURE(other);
    CHECK(read_redirection(other, asked) == std::nullopt);
  }
}
