// Who a request is counted by: proxies, both headers, every spelling of an address, and what a client makes up.
#include <stdexcept>
#include <string>

#include "catch.hpp"

#include <ratelimit/http/client_address.hpp>

using ratelimit::http::client_address;
using ratelimit::http::proxies;

namespace {

const proxies trusted{"192.0.2.0/24", "2001:db8:ffff::/48"};

// The answer for a header that a trusted proxy handed on; `peer` where it names nobody.
std::string behind(std::string_view header, int ipv6_prefix = 64) {
  return client_address("192.0.2.10", header, trusted, ipv6_prefix);
}
const std::string peer = "192.0.2.10";

std::string repeated(std::string_view part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

}  // namespace

TEST_CASE("nobody but a listed proxy is believed") {
  CHECK(client_address("198.51.100.9", "203.0.113.1", trusted) == "198.51.100.9");
  CHECK(client_address("198.51.100.9", "for=203.0.113.1", trusted) == "198.51.100.9");
  CHECK(client_address("192.0.2.10", "203.0.113.1", {}) == "192.0.2.10");
  CHECK(client_address("192.0.2.10", "", trusted) == "192.0.2.10");
}

TEST_CASE("from the right, the first address that is not a proxy's") {
  CHECK(behind("203.0.113.9") == "203.0.113.9");
  CHECK(behind("10.9.9.9, 203.0.113.9") == "203.0.113.9");
  CHECK(behind("203.0.113.9, 192.0.2.11") == "203.0.113.9");
  CHECK(behind("10.9.9.9,203.0.113.9 ,\t192.0.2.11 , 192.0.2.12") == "203.0.113.9");
  CHECK(behind("192.0.2.11, 192.0.2.12") == peer);
  // Two header lines, joined in order.
  const std::string first = "10.9.9.9, 203.0.113.9", second = "192.0.2.11";
  CHECK(behind(first + ", " + second) == "203.0.113.9");
}

TEST_CASE("ports, brackets, spaces and zone ids are no part of an identity") {
  CHECK(behind("203.0.113.9:52241") == "203.0.113.9");
  CHECK(behind("203.0.113.9:40000") == "203.0.113.9");
  CHECK(behind("  203.0.113.9\t") == "203.0.113.9");
  CHECK(behind("[2001:db8::1]:443", 128) == "2001:db8::1");
  CHECK(behind("[2001:db8::1]", 128) == "2001:db8::1");
  CHECK(behind("fe80::1%eth0", 128) == "fe80::1");
  CHECK(behind("[fe80::1%25eth0]:443", 128) == "fe80::1");
  CHECK(client_address("198.51.100.9:52241", "", trusted) == "198.51.100.9");
  CHECK(client_address("[2001:db8::1]:52241", "", trusted, 128) == "2001:db8::1");
  CHECK(client_address("192.0.2.10:52241", "203.0.113.9", trusted) == "203.0.113.9");
  CHECK(client_address("[2001:db8:ffff::2%eth0]:443", "203.0.113.9", trusted) == "203.0.113.9");
}

TEST_CASE("IPv6 is counted by its network, in one spelling") {
  CHECK(behind("[2001:db8::1]:443") == "2001:db8::");
  CHECK(behind("2001:db8:1:2:aaaa:bbbb:cccc:dddd") == "2001:db8:1:2::");
  CHECK(behind("2001:0DB8:0001:0002:0000:0000:0000:0001", 128) == "2001:db8:1:2::1");
  CHECK(behind("2001:db8:1:2ff:3::", 56) == "2001:db8:1:200::");
  CHECK(behind("2001:db8:1:2ff:3::", 57) == "2001:db8:1:280::");
  CHECK(behind("2001:db8:1:2ff:3::", 48) == "2001:db8:1::");
  CHECK(behind("2001:db8:1:2ff:3::", 0) == "::");
  CHECK(client_address("2001:db8:1:2:3:4:5:6", "", trusted) == "2001:db8:1:2::");
  CHECK(client_address("2001:db8:ffff::2", "", trusted) == "2001:db8:ffff::");
}

TEST_CASE("IPv4 written as IPv6 is IPv4, before the mask") {
  CHECK(behind("::ffff:203.0.113.9") == "203.0.113.9");
  CHECK(behind("[::FFFF:cb00:7109]:80", 0) == "203.0.113.9");
  CHECK(behind("203.0.113.9, ::ffff:192.0.2.11") == "203.0.113.9");
  CHECK(client_address("::ffff:192.0.2.10", "203.0.113.9", trusted) == "203.0.113.9");
  CHECK(client_address("::ffff:198.51.100.9", "203.0.113.9", trusted) == "198.51.100.9");
}

TEST_CASE("garbage names nobody, and hides what stands left of it") {
  for (const char* garbage : {"23189987",
                              "",
                              " ",
                              ",",
                              ",,",
                              ", ,\t,",
                              "unknown",
                              "_hidden",
                              "localhost",
                              "203.0.113",
                              "203.0.113.256",
                              "203.0.113.9.1",
                              "0x7f.1.1.1",
                              "203.0.113.9:",
                              "203.0.113.9:x",
                              "203.0.113.9:123456",
                              "203.0.113.9:1:2",
                              "203.0.113.9%eth0",
                              "203.0.113.9/32",
                              "203.0.113.9 10.9.9.9",
                              "[203.0.113.9]",
                              "[2001:db8::1",
                              "[2001:db8::1]x",
                              "[2001:db8::1]443",
                              "[]",
                              "[]:1",
                              "[",
                              "]",
                              ":443",
                              ":",
                              "2001:db8::g",
                              "1::2::3",
                              "\"203.0.113.9\"",
                              "\"",
                              "\\"}) {
    CAPTURE(garbage);
    CHECK(behind(garbage) == peer);
  }
  CHECK(behind("203.0.113.9, unknown, 192.0.2.11") == peer);
  CHECK(behind(std::string_view{"203.0.113.9\0.1", 14}) == peer);
  CHECK(behind("203.0.113.9, ,") == "203.0.113.9");
}

TEST_CASE("a peer that is no address is answered as it is") {
  CHECK(client_address("", "203.0.113.9", trusted) == "");
  CHECK(client_address("unix:", "203.0.113.9", trusted) == "unix:");
}

TEST_CASE("Forwarded: the same walk over its for= pairs") {
  CHECK(behind("for=203.0.113.9") == "203.0.113.9");
  CHECK(behind("for=10.9.9.9, For=203.0.113.9;proto=https;by=192.0.2.10") == "203.0.113.9");
  CHECK(behind("proto=https; FOR=\"203.0.113.9:4711\" ;by=192.0.2.10, for=192.0.2.11") == "203.0.113.9");
  CHECK(behind("for=\"[2001:db8::1]:4711\"", 128) == "2001:db8::1");
  CHECK(behind("for=\"203.0.113.9:_obf-1\"") == "203.0.113.9");
  CHECK(behind("for=203.0.113.9;host=\"a,b;for=10.9.9.9\"") == "203.0.113.9");
  CHECK(behind("for=203.0.113.9, for=\"192.0.2.11:443\", for=\"[2001:db8:ffff::7]\"") == "203.0.113.9");
}

TEST_CASE("Forwarded: what names no address, or two") {
  for (const char* garbage :
       {"for=unknown", "for=_hidden", "for=\"_hidden\"", "for=", "for=\"\"", "for=\"", "for", "=", "=203.0.113.9",
        "proto=https", "by=203.0.113.9", "xfor=203.0.113.9", "for=203.0.113.9;for=10.9.9.9", "for=\"203.0.113.9",
        "for=[2001:db8::1", "for=\"203.0.113\\.9\"", ";", ";;="}) {
    CAPTURE(garbage);
    CHECK(behind(garbage) == peer);
    CHECK(behind("for=203.0.113.9, " + std::string{garbage}) == peer);
  }
}

TEST_CASE("nothing a client puts on the left reaches the hop that a proxy wrote") {
  for (const char* made_up : {"\"", "for=\"", "for=\"\\", "for=10.9.9.9;host=\"", "\\", "\\\\\"", "for=10.9.9.9;", "[",
                              "=", "10.9.9.9,\"", "a\"b\"c\""}) {
    CAPTURE(made_up);
    CHECK(behind(std::string{made_up} + ", 203.0.113.9") == "203.0.113.9");
    CHECK(behind(std::string{made_up} + ", for=203.0.113.9;host=\"example.com\"") == "203.0.113.9");
  }
  // A host with quotes, escaped by the proxy as it must.
  CHECK(behind("for=203.0.113.9;host=\"x\\\", for=10.9.9.9;a=\\\"\"") == "203.0.113.9");
  CHECK(behind("for=203.0.113.9;host=\"x\\\\\"") == "203.0.113.9");
}

TEST_CASE("large headers") {
  CHECK(behind(repeated("192.0.2.11, ", 10'000)) == peer);
  CHECK(behind(repeated("unknown, ", 10'000)) == peer);
  CHECK(behind(repeated("10.9.9.9, ", 10'000) + "203.0.113.9") == "203.0.113.9");
  CHECK(behind("203.0.113.9" + repeated(", 192.0.2.11", 10'000)) == "203.0.113.9");
  for (const char* filler : {"1", ",", "\"", "\\", "\\\"", ":", "[", ";", "=", " ", "%", "for=;"}) {
    CAPTURE(filler);
    CHECK(behind(repeated(filler, 1 << 20)) == peer);
  }
}

TEST_CASE("a prefix out of range is refused") {
  CHECK_THROWS_AS(behind("203.0.113.9", -1), std::invalid_argument);
  CHECK_THROWS_AS(behind("203.0.113.9", 129), std::invalid_argument);
  try {
    behind("203.0.113.9", 129);
  } catch (const std::invalid_argument& refused) {
    CHECK(std::string{refused.what()} == "ratelimit: ipv6_prefix: 129 is not within 0 and 128");
  }
}
