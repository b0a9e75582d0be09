// Redis URLs and redis_options: what they mean, and what is refused.
#include <ratelimit/redis.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "support/fake_server.hpp"

namespace {

using ratelimit::parse_redis_url;
using ratelimit::redis_options;

constexpr std::string_view awkward = "p@ss:w/o#r%d?+ x";
constexpr std::string_view awkward_encoded = "p%40ss%3Aw%2Fo%23r%25d%3F%2B%20x";

struct meaning {
  std::string url, host;
  int port;
  std::string unix_path, username, password;
  int database;
};

std::string refusal(std::string_view url) {
  try {
    parse_redis_url(url);
  } catch (const std::invalid_argument& why) {
    return why.what();
  }
  return "accepted";
}

std::string refusal(const redis_options& chosen) {
  try {
    ratelimit::redis{chosen};
  } catch (const std::invalid_argument& why) {
    return why.what();
  }
  return "accepted";
}

// What the server hears first from a client built on that.
template <class From>
std::vector<support::words> introduction(const From& make) {
  support::fake_server server{
      [](const support::words& said) -> support::bytes { return said.front() == "DEL" ? ":0\r\n" : "+OK\r\n"; }};
  ratelimit::redis store{make(server)};
  const ratelimit::request reset{ratelimit::algorithm_id::fixed_window, ratelimit::operation::reset, "k", {}, 1, {}};
  REQUIRE(store.run(reset, ratelimit::deadline{std::chrono::seconds{5}}).error == std::error_code{});
  return server.heard();
}

}  // namespace

TEST_CASE("what each URL means") {
  const std::string pw{awkward};
  for (const meaning& m : std::vector<meaning>{
           {"redis://h", "h", 6379, "", "", "", 0},
           {"redis://h/", "h", 6379, "", "", "", 0},
           {"redis://h:/", "h", 6379, "", "", "", 0},
           {"redis://h:7000/15", "h", 7000, "", "", "", 15},
           {"redis://:pw@h", "h", 6379, "", "", "pw", 0},
           {"redis://user:@h", "h", 6379, "", "user", "", 0},
           {"redis://:@h", "h", 6379, "", "", "", 0},
           {"redis://user:pw@redis.example.com:6380/2", "redis.example.com", 6380, "", "user", "pw", 2},
           {"redis://user:p@ss:w@h", "h", 6379, "", "user", "p@ss:w", 0},
           {"redis://:a+b=@h", "h", 6379, "", "", "a+b=", 0},
           {"redis://us%65r%3a:" + std::string{awkward_encoded} + "@h", "h", 6379, "", "user:", pw, 0},
           {"redis://:%2525@h", "h", 6379, "", "", "%25", 0},
           {"redis://:a%00b@h", "h", 6379, "", "", std::string{"a\0b", 3}, 0},
           {"redis://192.0.2.7:6380", "192.0.2.7", 6380, "", "", "", 0},
           {"redis://[2001:db8::1]", "2001:db8::1", 6379, "", "", "", 0},
           {"redis://:pw@[2001:db8::1]:6380/1", "2001:db8::1", 6380, "", "", "pw", 1},
           {"redis://[fe80::1%25eth0]", "fe80::1%eth0", 6379, "", "", "", 0},
           {"unix:///run/redis.sock", "127.0.0.1", 6379, "/run/redis.sock", "", "", 0},
           {"unix:///tmp/a%20b.sock?db=2", "127.0.0.1", 6379, "/tmp/a b.sock", "", "", 2},
           {"unix:///tmp/a@b:c+d?db=0", "127.0.0.1", 6379, "/tmp/a@b:c+d", "", "", 0},
           {"unix://user:p%2Fw@/tmp/s", "127.0.0.1", 6379, "/tmp/s", "user", "p/w", 0},
           {"unix:///" + std::string(106, 'x'), "127.0.0.1", 6379, "/" + std::string(106, 'x'), "", "", 0},
       }) {
    CAPTURE(m.url);
    const redis_options got = parse_redis_url(m.url);
    CHECK(got.host == m.host);
    CHECK(got.port == m.port);
    CHECK(got.unix_path == m.unix_path);
    CHECK(got.username == m.username);
    CHECK(got.password == m.password);
    CHECK(got.database == m.database);
    CHECK(got.client_name.empty());
    CHECK(got.connections == 4);
  }
}

TEST_CASE("what URLs of clusters and sentinels mean") {
  using ratelimit::redis_address;
  using ratelimit::redis_mode;
  const std::vector<redis_address> two{{"h1", 7000}, {"2001:db8::1", 6379}};

  const redis_options cluster = parse_redis_url("redis+cluster://user:a,b%40@h1:7000,[2001:db8::1]");
  CHECK(cluster.mode == redis_mode::cluster);
  CHECK(cluster.nodes == two);
  CHECK(cluster.username == "user");
  CHECK(cluster.password == "a,b@");
  CHECK(cluster.database == 0);
  CHECK(parse_redis_url("redis+cluster://h1:7000,[2001:db8::1]:/0").nodes == two);

  const redis_options sentinel = parse_redis_url(
      "redis+sentinel://user:pw@h1,[2001:db8::1]:7/my%2Fmaster/3?sentinel_username=watch&sentinel_password=a%26b%3D+");
  CHECK(sentinel.mode == redis_mode::sentinel);
  CHECK(sentinel.nodes == std::vector<redis_address>{{"h1", 26379}, {"2001:db8::1", 7}});
  CHECK(sentinel.master_name == "my/master");
  CHECK(sentinel.username == "user");
  CHECK(sentinel.password == "pw");
  CHECK(sentinel.database == 3);
  CHECK(sentinel.sentinel_username == "watch");
  CHECK(sentinel.sentinel_password == "a&b=+");
  CHECK(parse_redis_url("redis+sentinel://h/m/").database == 0);
  CHECK(parse_redis_url("redis+sentinel://h/m").sentinel_password.empty());
}

TEST_CASE("URLs that are refused, and why") {
  const std::string at = "ratelimit: Redis URL: ";
  const std::string scheme = " is not unix or redis, rediss, the latter two also with +sentinel or +cluster";
  const std::string no_tls =
      at + "scheme: rediss needs a program that includes ratelimit/redis/tls.hpp and links OpenSSL";
  const std::string query =
      " is not known; db is, in unix URLs, and sentinel_username and sentinel_password, in redis+sentinel URLs";
  const std::string port =
      at + "port: it is not a whole number within 1 and 65535 (an IPv6 address stands in brackets)";
  const std::string no_colon =
      at + "user information: it holds no \":\"; write user:password@, or :password@ for the default user";
  const std::string hex = ": a % is not followed by two hexadecimal digits";
  const std::string encode = at + "user information: a \"/\", \"?\" or \"#\" in it must be percent-encoded";
  for (const auto& [url, why] : std::vector<std::pair<std::string, std::string>>{
           {"", at + "it does not begin with redis:// or unix://"},
           {"localhost:6379", at + "it does not begin with redis:// or unix://"},
           {"redis:h", at + "it does not begin with redis:// or unix://"},
           {"http://h", at + "scheme: \"http\"" + scheme},
           {"redis+http://h", at + "scheme: \"redis+http\"" + scheme},
           {"rediss+http://h", at + "scheme: \"rediss+http\"" + scheme},
           {"redisss://h", at + "scheme: \"redisss\"" + scheme},
           {"unix+cluster://h", at + "scheme: \"unix+cluster\"" + scheme},
           {"rediss://h", no_tls},
           {"rediss+cluster://h1,h2", no_tls},
           {"rediss+sentinel://h1,h2/m", no_tls},
           {"redis+cluster://h1,", at + "host: it is empty"},
           {"redis+cluster://", at + "host: it is empty"},
           {"redis+cluster://h1,h2:0", port},
           {"redis+cluster://h1,2001:db8::1", port},
           {"redis+cluster://h1/1", "ratelimit: database: 1 is not 0, the only one a cluster has"},
           {"redis+cluster://h1/x", at + "database: \"x\" is not a whole number"},
           {"redis+cluster://h1?x=1", at + "query: \"x\"" + query},
           {"redis+cluster://user@h1,h2", no_colon},
           {"redis+sentinel://h1,h2", at + "master: the path must begin with its name"},
           {"redis+sentinel://h1,h2/", at + "master: the path must begin with its name"},
           {"redis+sentinel://h1,h2//1", at + "master: the path must begin with its name"},
           {"redis+sentinel://h1/m/x", at + "database: \"x\" is not a whole number"},
           {"redis+sentinel://h1/m/1/2", at + "database: \"1/2\" is not a whole number"},
           {"redis+sentinel://h1/m?password=1", at + "query: \"password\"" + query},
           {"redis+sentinel://h1/m?sentinel_password=%zz", at + "sentinel_password" + hex},
           {"redis+sentinel://h1/%zz", at + "master" + hex},
           {"redis+sentinel://,h1/m", at + "host: it is empty"},
           {"redis://", at + "host: it is empty"},
           {"redis:///1", at + "host: it is empty"},
           {"redis://h1,h2", at + "host: several are for redis+sentinel and redis+cluster"},
           {"redis://:pw@", at + "host: it is empty"},
           {"redis://user@h", no_colon},
           {"redis://secret@h:1/1", no_colon},
           {"unix://user@/tmp/s", no_colon},
           {"redis://h/x", at + "database: \"x\" is not a whole number"},
           {"redis://h/1/2", at + "database: \"1/2\" is not a whole number"},
           {"redis://h/-1", at + "database: \"-1\" is not a whole number"},
           {"redis://h/+1", at + "database: \"+1\" is not a whole number"},
           {"redis://h/99999999999", at + "database: \"99999999999\" is not a whole number"},
           {"redis://h:0", port},
           {"redis://h:65536", port},
           {"redis://h:6379x", port},
           {"redis://h:-1", port},
           {"redis://2001:db8::1", port},
           {"redis://[2001:db8::1", at + "host: a \"[\" without a \"]\""},
           {"redis://[2001:db8::1]6379", at + "host: something follows the \"]\""},
           {"redis://a b", "ratelimit: host: the value holds a byte that is not visible ASCII"},
           {"redis://a%00b", "ratelimit: host: the value holds a byte that is not visible ASCII"},
           {"redis://:pw%zz@h", at + "password" + hex},
           {"redis://:pw%4@h", at + "password" + hex},
           {"redis://:pw%@h", at + "password" + hex},
           {"redis://:pw%+1@h", at + "password" + hex},
           {"redis://%zz:pw@h", at + "user" + hex},
           {"redis://h%zz", at + "host" + hex},
           {"redis://:se/cret@h", encode},
           {"redis://:se?cret@h", encode},
           {"redis://:se#cret@h", encode},
           {"redis://h?db=1", at + "query: \"db\"" + query},
           {"redis://h/1#x", at + "path: a \"#\" must be percent-encoded"},
           {"unix://", at + "path: it is empty"},
           {"unix://tmp/s", at + "host: a Unix socket has none; the path begins at the third \"/\""},
           {"unix:///tmp/%zz", at + "path" + hex},
           {"unix:///tmp/a#b", at + "path: a \"#\" must be percent-encoded"},
           {"unix:///tmp/s?db=x", at + "database: \"x\" is not a whole number"},
           {"unix:///tmp/s?db=", at + "database: \"\" is not a whole number"},
           {"unix:///tmp/s?timeout=1", at + "query: \"timeout\"" + query},
           {"unix:///tmp/s?db=1&x", at + "query: \"x\"" + query},
           {"unix:///tmp/a%00b", "ratelimit: unix_path: the value holds a NUL"},
           {"unix:///" + std::string(107, 'x'),
            "ratelimit: unix_path: /" + std::string(107, 'x') + " is longer than 107 bytes"},
       }) {
    CAPTURE(url);
    CHECK(refusal(url) == why);
  }
}

TEST_CASE("no refusal shows a password") {
  for (const std::string& url : std::vector<std::string>{
           "redis://user:s3cret@h:x",
           "redis://:s3cret@",
           "redis://:s3cret@h/x",
           "redis://:s3cret",
           "redis://s3cret@h",
           "redis://user:s3cret%zz@h",
           "redis://user:s3cret/@h",
           "redis://user:s3cret?@h",
           "redis://:s3cret@h?q=1",
           "redis://:s3cret@h#1",
           "redis://user:s3cret",
           "redis://[s3cret@h",
           "unix://:s3cret@h/tmp/s",
           "unix://:s3cret@/tmp/s?x=1",
           "unix://:s3cret@/tmp/s?db=x",
           "rediss://:s3cret@h",
           "redis+cluster://:s3cret@h,",
           "redis+cluster://:s3cret,@h:x",
           "redis+cluster://:s3cret@h/1",
           "redis+sentinel://:s3cret@h",
           "redis+sentinel://h/m?sentinel_password=s3cret@x",
           "redis+sentinel://h/m?sentinel_password=s3cret%z",
           "redis+sentinel://h/m/x?sentinel_password=s3cret",
           "redis://h?sentinel_password=s3cret",
           "redis:s3cret@h",
       }) {
    CAPTURE(url);
    CHECK(refusal(url) != "accepted");
    CHECK(refusal(url).find("s3cret") == std::string::npos);
  }
  CHECK(refusal(redis_options{.host = "", .password = "s3cret"}) == "ratelimit: host: the value is empty");
}

TEST_CASE("options that are refused, and why") {
  const auto text = [](const redis_options& chosen) { return refusal(chosen); };
  CHECK(text({.port = 0}) == "ratelimit: port: 0 is not within 1 and 65535");
  CHECK(text({.port = 65536}) == "ratelimit: port: 65536 is not within 1 and 65535");
  CHECK(text({.port = -1}) == "ratelimit: port: -1 is not within 1 and 65535");
  CHECK(text({.host = "[::1]\n"}) == "ratelimit: host: the value holds a byte that is not visible ASCII");
  CHECK(text({.database = -1}) == "ratelimit: database: -1 is negative");
  CHECK(text({.client_name = "a b"}) == "ratelimit: client_name: the value holds a byte that is not visible ASCII");
  CHECK(text({.connections = 0}) == "ratelimit: connections: 0 is not within 1 and 1000");
  CHECK(text({.connections = 1001}) == "ratelimit: connections: 1001 is not within 1 and 1000");
  CHECK(text({.connections = 1000}) == "accepted");
  CHECK(text({.host = "", .port = 0, .unix_path = "/tmp/s"}) == "accepted");

  using ratelimit::redis_mode;
  CHECK(text({.nodes = {{"h"}}}) == "ratelimit: nodes: the list is for the modes sentinel and cluster");
  CHECK(text({.mode = redis_mode::cluster}) == "ratelimit: nodes: the list is empty");
  CHECK(text({.mode = redis_mode::sentinel, .master_name = "m"}) == "ratelimit: nodes: the list is empty");
  CHECK(text({.mode = redis_mode::cluster, .nodes = {{"h"}, {""}}}) == "ratelimit: host: the value is empty");
  CHECK(text({.mode = redis_mode::cluster, .nodes = {{"h", 0}}}) == "ratelimit: port: 0 is not within 1 and 65535");
  CHECK(text({.unix_path = "/tmp/s", .mode = redis_mode::cluster, .nodes = {{"h"}}}) ==
        "ratelimit: unix_path: the value is for the mode single");
  CHECK(text({.mode = redis_mode::sentinel, .nodes = {{"h"}}}) == "ratelimit: master_name: the value is empty");
  CHECK(text({.mode = redis_mode::cluster, .nodes = {{"h"}}, .master_name = "m"}) ==
        "ratelimit: master_name: the value is for the mode sentinel");
  CHECK(text({.mode = redis_mode::cluster, .nodes = {{"h"}}, .sentinel_password = "s3cret"}) ==
        "ratelimit: sentinel_username, sentinel_password: the value is for the mode sentinel");
  CHECK(text({.database = 1, .mode = redis_mode::cluster, .nodes = {{"h"}}}) ==
        "ratelimit: database: 1 is not 0, the only one a cluster has");
  CHECK(text({.host = "", .port = 0, .mode = redis_mode::cluster, .nodes = {{"h"}}}) == "accepted");
  CHECK(text({.mode = redis_mode::sentinel, .nodes = {{"h"}, {"h", 1}}, .master_name = "m"}) == "accepted");
}

TEST_CASE("AUTH, SELECT and CLIENT SETNAME carry the very bytes") {
  const support::words reset{"DEL", "k"};
  using said = std::vector<support::words>;

  CHECK(introduction([](const auto& server) { return server.url(); }) == said{reset});
  CHECK(introduction([](const auto& server) {
          return "unix://:" + std::string{awkward_encoded} + "@" + server.socket_path();
        }) == said{{"AUTH", std::string{awkward}}, reset});
  CHECK(introduction([](const auto& server) {
          return redis_options{.unix_path = server.socket_path(), .password = std::string{awkward}};
        }) == said{{"AUTH", std::string{awkward}}, reset});
  CHECK(introduction([](const auto& server) { return "unix://user:@" + server.socket_path(); }) ==
        said{{"AUTH", "user", ""}, reset});
  CHECK(introduction([](const auto& server) {
          return redis_options{.unix_path = server.socket_path(),
                               .username = "us er",
                               .password = "a+b=",
                               .database = 15,
                               .client_name = "api:1"};
        }) == said{{"AUTH", "us er", "a+b="}, {"SELECT", "15"}, {"CLIENT", "SETNAME", "api:1"}, reset});
}
