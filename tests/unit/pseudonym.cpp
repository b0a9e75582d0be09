// Pseudonyms against values of the openssl command line, rotation, several secrets, and what is refused. A value is the
// first 24 digits of, for day 19675 (hexadecimal 4cdb),
//   printf '\0\0\0\0\0\0\x4c\xdb%s' anna@example.com | openssl dgst -sha256 -hmac 0123456789abcdef
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "catch.hpp"

#include <ratelimit/pseudonym.hpp>

using namespace ratelimit;
using namespace std::chrono_literals;
using std::chrono::days;

namespace {

const std::string secret = "0123456789abcdef";
const std::string older = "a second secret of 31 bytes ...";
constexpr time_point noon{1'700'000'040s};      // on day 19675
constexpr time_point midnight{1'700'006'400s};  // where day 19676 begins
const std::string anna = "anna@example.com";

template <class Clock>
concept usable = requires {
  typename pseudonym<Clock>;
};

std::string error_of(const std::vector<std::string>& secrets, std::chrono::seconds rotation = days{1}) {
  try {
    pseudonym<>{secrets, rotation};
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a pseudonym is 24 digits of HMAC-SHA256 over the day and the data") {
  const pseudonym hide{secret, days{1}, manual_clock{noon}};
  CHECK(hide(anna) == "9a95e1a53361b3acf603eafb");
  CHECK(hide("a") == "0b2764f40da6d94bdfad3874");
  CHECK(hide("") == "a16555d6d81d83333b437473");
  CHECK(hide(std::string_view{"a\0b", 3}) == "189e71c4fdaab63ed5d1a77b");
  CHECK(hide(std::string(1'000'000, 'x')) == "8387813049915e54cab4aa0d");
}

TEST_CASE("secrets of any length, longer than a block of SHA-256 too") {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  CHECK(pseudonym{older, days{1}, manual_clock{noon}}(anna) == "6377308b7e35c153d51bca9c");
  CHECK(pseudonym{every_byte, days{1}, manual_clock{noon}}(anna) == "2f91cfb839ce5f8c5577f7f3");
}

TEST_CASE("a new day, a new pseudonym: at midnight UTC, not a microsecond before") {
  manual_clock clock{midnight - 1us};
  const pseudonym hide{secret, days{1}, clock};
  CHECK(hide(anna) == "9a95e1a53361b3acf603eafb");
  clock.advance(1us);
  CHECK(hide(anna) == "0f69165a51a4a2c28c6efc99");
  clock.set(midnight + 24h - 1us);
  CHECK(hide(anna) == "0f69165a51a4a2c28c6efc99");
  clock.set(noon);
  CHECK(hide(anna) == "9a95e1a53361b3acf603eafb");
}

TEST_CASE("other rotations count their own periods, and time before the epoch rounds down") {
  CHECK(pseudonym{secret, 1h, manual_clock{noon}}(anna) == "e68a1d83307c5e42238e2019");
  CHECK(pseudonym{secret, days{1}, manual_clock{time_point{0us}}}(anna) == "f79cb218c2cde2dc7473619e");
  CHECK(pseudonym{secret, days{1}, manual_clock{time_point{-1us}}}(anna) == "59f5ad0ab9c94a99049221bc");
  CHECK(pseudonym{secret, days{1}, manual_clock{time_point{-24h}}}(anna) == "59f5ad0ab9c94a99049221bc");
}

TEST_CASE("the first of several secrets makes the pseudonyms, all of them find") {
  const std::vector<std::string> both{older, secret};
  const std::vector<std::string> found{"6377308b7e35c153d51bca9c", "9a95e1a53361b3acf603eafb"};
  const pseudonym configured{both, days{1}, manual_clock{noon}};
  CHECK(configured(anna) == found[0]);
  CHECK(configured.all(anna) == found);
  const pseudonym listed{{older, secret}, days{1}, manual_clock{noon}};
  CHECK(listed(anna) == found[0]);
  CHECK(listed.all(anna) == found);
  const pseudonym one{secret, days{1}, manual_clock{noon}};
  CHECK(one.all(anna) == std::vector{found[1]});
}

TEST_CASE("short, missing and oversized secrets are refused, and not shown") {
  CHECK(error_of({}) == "ratelimit: secrets: none is given");
  CHECK(error_of({""}) == "ratelimit: secret 1 of 1: 0 bytes are not within 16 and 65536");
  CHECK(error_of({"0123456789abcde"}) == "ratelimit: secret 1 of 1: 15 bytes are not within 16 and 65536");
  CHECK(error_of({secret, "hunter2"}) == "ratelimit: secret 2 of 2: 7 bytes are not within 16 and 65536");
  CHECK(error_of({std::string(65'537, 'x')}) == "ratelimit: secret 1 of 1: 65537 bytes are not within 16 and 65536");
  CHECK(error_of({std::string(65'536, 'x'), secret}) == "accepted");
  CHECK_THROWS_AS(pseudonym{"hunter2"}, std::invalid_argument);
}

TEST_CASE("a rotation below one second is refused") {
  CHECK(error_of({secret}, 0s) == "ratelimit: rotation: 0s is not at least 1 s");
  CHECK(error_of({secret}, -1s) == "ratelimit: rotation: -1s is not at least 1 s");
  CHECK(error_of({secret}, 1s) == "accepted");
}

TEST_CASE("the clock must know the time") {
  STATIC_REQUIRE(usable<system_clock>);
  STATIC_REQUIRE(usable<manual_clock>);
  STATIC_REQUIRE_FALSE(usable<server_clock>);
}

TEST_CASE("the system's clock and a day are the defaults") {
  const pseudonym hide{secret};
  const pseudonym same{secret, days{1}, system_clock{}};
  STATIC_REQUIRE(std::is_same_v<decltype(hide), const pseudonym<system_clock>>);
  // Asked twice, as midnight may fall between the two calls once.
  CHECK((hide(anna) == same(anna) || hide(anna) == same(anna)));
}

TEST_CASE("copies are equal and outlive the first, and many threads may ask one") {
  auto first = std::make_unique<pseudonym<manual_clock>>(secret, days{1}, manual_clock{noon});
  const pseudonym<manual_clock> copy{*first};
  first.reset();
  std::vector<std::string> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers) {
    threads.emplace_back([&copy, &answer] {
      for (int i = 0; i < 1000; ++i) answer = copy(anna);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(answers == std::vector<std::string>(4, "9a95e1a53361b3acf603eafb"));
}
