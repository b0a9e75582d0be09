// Lists of trusted proxies: networks, single addresses, both families, and what is refused.
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"

#include <ratelimit/http/client_address.hpp>

using ratelimit::http::address;
using ratelimit::http::client_address;
using ratelimit::http::proxies;

namespace {

std::string error_of(std::string_view entry) {
  try {
    proxies{entry};
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "accepted";
}

bool holds(const proxies& list, std::string_view text) {
  return list.contains(address::parse(text).value());
}

}  // namespace

TEST_CASE("a list of proxies: networks and single addresses of both families") {
  const proxies list{"192.0.2.129/25", "198.51.100.7", "2001:db8::/33", "2001:db8:ffff::1", "::ffff:203.0.113.0/120"};
  CHECK(holds(list, "192.0.2.128"));
  CHECK(holds(list, "192.0.2.255"));
  CHECK_FALSE(holds(list, "192.0.2.127"));
  CHECK(holds(list, "198.51.100.7"));
  CHECK(holds(list, "::ffff:198.51.100.7"));
  CHECK_FALSE(holds(list, "198.51.100.8"));
  CHECK(holds(list, "2001:db8:7fff::1"));
  CHECK_FALSE(holds(list, "2001:db8:8000::1"));
  CHECK(holds(list, "2001:db8:ffff::1"));
  CHECK_FALSE(holds(list, "2001:db8:ffff::2"));
  CHECK(holds(list, "203.0.113.255"));
  CHECK_FALSE(holds(list, "203.0.112.255"));
  CHECK_FALSE(holds({}, "192.0.2.1"));
}

TEST_CASE("a network of one family holds no address of the other") {
  CHECK(holds({"0.0.0.0/0"}, "203.0.113.9"));
  CHECK_FALSE(holds({"0.0.0.0/0"}, "2001:db8::1"));
  CHECK(holds({"::/0"}, "2001:db8::1"));
  CHECK_FALSE(holds({"::/0"}, "203.0.113.9"));
}

TEST_CASE("a list comes from strings of any kind") {
  const std::vector<std::string> configured{"192.0.2.0/24", "2001:db8::/32"};
  CHECK(client_address("192.0.2.10", "203.0.113.9", configured) == "203.0.113.9");
  CHECK(client_address("192.0.2.10", "203.0.113.9", {"192.0.2.0/24"}) == "203.0.113.9");
  CHECK(client_address("2001:db8::9", "203.0.113.9", {"192.0.2.0/24", "2001:db8::/32"}) == "203.0.113.9");
  CHECK(holds(std::vector<std::string_view>{"192.0.2.0/24"}, "192.0.2.1"));
}

TEST_CASE("an entry that is no network is refused by name") {
  const std::string no_address = " is not an IP address or network";
  for (const char* entry : {"", "/", "/24", "example.com", "192.0.2", "192.0.2.0.0/24", "192.0.2.0:80",
                            "[2001:db8::]/32", " 192.0.2.0/24", "192.0.2.0 /24", "2001:db8:::/32"}) {
    CHECK(error_of(entry) == "ratelimit: trusted proxy: \"" + std::string{entry} + "\"" + no_address);
  }
  for (const char* entry : {"192.0.2.0/", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/+8", "192.0.2.0/ 8",
                            "192.0.2.0/8 ", "192.0.2.0/255.255.255.0", "192.0.2.0/24/24", "192.0.2.0/4294967304"}) {
    CHECK(error_of(entry) ==
          "ratelimit: trusted proxy: \"" + std::string{entry} + "\" has a prefix that is not within 0 and 32");
  }
  CHECK(error_of("2001:db8::/129") ==
        "ratelimit: trusted proxy: \"2001:db8::/129\" has a prefix that is not within 0 and 128");
  CHECK(error_of("2001:db8::/x") ==
        "ratelimit: trusted proxy: \"2001:db8::/x\" has a prefix that is not within 0 and 128");
  CHECK(error_of("::ffff:192.0.2.0/24") ==
        "ratelimit: trusted proxy: \"::ffff:192.0.2.0/24\" is IPv4-mapped, and its prefix is below 96");
}
