// A limit that is only tried out, beside limits that are enforced.
#include <cstdint>
#include <string>

#include "catch.hpp"
#include "recipes/rows.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::fail;
using ratelimit::source;
using recipes::w0;

struct ill_store : ratelimit::memory {
  bool ill = false;
  void run_many(std::span<const ratelimit::request> what, std::size_t together, std::span<ratelimit::outcome> out,
                const ratelimit::deadline& until) {
    if (!ill) return ratelimit::memory::run_many(what, together, out, until);
    for (ratelimit::outcome& one : out) one = {.error = ratelimit::errc::refused};
  }
};

auto limit(ill_store& store, const ratelimit::manual_clock& clock, std::string name, std::int64_t units, fail mode,
           bool shadow) {
  return ratelimit::sliding_log{
      store, {.name = std::move(name), .limit = units, .window = 60s, .on_failure = mode, .shadow = shadow}, clock};
}

}  // namespace

TEST_CASE("A limit in shadow refuses nothing in an outage, whatever its mode", "[joint]") {
  ill_store store;
  store.ill = true;
  const ratelimit::manual_clock clock{w0};
  const ratelimit::all_of both{limit(store, clock, "open", 3, fail::open, false),
                               limit(store, clock, "tried", 3, fail::closed, true)};
  const auto d = both.check("client", "eu");
  CHECK(d.allowed);
  CHECK(d.from == source::failed_open);
  CHECK(d.limit_name == "open");
  CHECK(d.would_deny);
  CHECK(d.parts[0].from == source::failed_open);
  CHECK_FALSE(d.parts[0].would_deny);
  CHECK(d.parts[1].from == source::failed_closed);
  CHECK(d.parts[1].allowed);
  CHECK(d.parts[1].would_deny);
}

TEST_CASE("A limit in shadow is not the one that binds", "[joint]") {
  ill_store store;
  const ratelimit::manual_clock clock{w0};
  const auto tried = limit(store, clock, "tried", 1, fail::closed, true);
  const ratelimit::all_of both{tried, limit(store, clock, "enforced", 3, fail::closed, false)};
  CHECK(both.check("client", "eu").limit_name == "enforced");
  const auto d = both.check("client", "eu");
  CHECK(d.allowed);
  CHECK(d.would_deny);
  CHECK(d.limit_name == "enforced");
  CHECK(d.limit == 3);
  CHECK(d.used == 2);
  CHECK(d.remaining == 1);
  CHECK(ratelimit::all_of{tried}.peek("client", "eu").limit_name == "tried");
}
