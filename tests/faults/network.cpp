// What lies between client and server loses, cuts, garbles and resets.
#include "load.hpp"
#include "support/fault_proxy.hpp"

using namespace faults;
using support::fault_proxy;
using support::tamper;

namespace {

void tampered_with(const char* name, tamper how, std::initializer_list<errc> expected) {
  server redis;
  fault_proxy between{redis.socket_path()};
  ratelimit::redis_options to{.port = between.port(), .connections = 4};
  const auto seen = under_load(
      name, redis, to,
      [&](load& traffic) {
        between.set(how);
        traffic.wait_for_errors();
        a_while();
        between.set(tamper::nothing);
      },
      3);
  CHECK(only(seen, expected));
  CHECK(seen.failed > 0);
  CHECK((how == tamper::stall || between.tampered() > 0));
}

}  // namespace

TEST_CASE("replies are lost") {
  tampered_with("replies lost", tamper::lose_replies, {errc::timeout});
}
TEST_CASE("half of a reply") {
  tampered_with("half a reply", tamper::halve_replies, {errc::timeout});
}
TEST_CASE("garbage for a reply") {
  tampered_with("garbage", tamper::garble_replies, {errc::protocol, errc::closed, errc::timeout});
}
TEST_CASE("a reset before the command arrives") {
  tampered_with("reset before the command arrives", tamper::reset_before, {errc::closed, errc::timeout});
}
TEST_CASE("a reset after the command was run") {
  tampered_with("reset after the command was run", tamper::reset_after, {errc::closed, errc::timeout});
}
TEST_CASE("nothing goes through") {
  tampered_with("nothing goes through", tamper::stall, {errc::timeout});
}
