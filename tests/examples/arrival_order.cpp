// Requests of a log come out in the order of their stamps, as far as one span reaches.
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "replay/arrival_order.hpp"

namespace {

using namespace std::chrono_literals;
using order = replay::arrival_order<std::string>;
using arrivals = std::vector<std::pair<std::chrono::seconds, std::string>>;

constexpr ratelimit::time_point epoch{1'431'857'103s};

struct replayed {
  order requests{};
  arrivals came{};  // seconds after the epoch above, and who

  auto out() {
    return [this](ratelimit::time_point time, const std::string& who) {
      came.emplace_back(std::chrono::duration_cast<std::chrono::seconds>(time - epoch), who);
    };
  }
  void add(std::chrono::seconds at, std::string who) { requests.add(epoch + at, std::move(who), out()); }
  void finish() { requests.finish(out()); }
};

}  // namespace

TEST_CASE("a request waits until a stamp one span later was read", "[arrival_order]") {
  replayed l;
  l.add(0s, "a");
  l.add(59s, "b");
  CHECK((l.came == arrivals{}));
  l.add(60s, "c");
  CHECK((l.came == arrivals{{0s, "a"}}));
  l.add(118s, "d");
  CHECK((l.came == arrivals{{0s, "a"}}));
  l.add(120s, "e");
  CHECK((l.came == arrivals{{0s, "a"}, {59s, "b"}, {60s, "c"}}));
  l.finish();
  CHECK((l.came == arrivals{{0s, "a"}, {59s, "b"}, {60s, "c"}, {118s, "d"}, {120s, "e"}}));
  CHECK(l.requests.out_of_order() == 0);
  CHECK(l.requests.late() == 0);
}

TEST_CASE("lines of one second keep the log's order", "[arrival_order]") {
  replayed l;
  for (const char* who : {"a", "b", "c"}) l.add(5s, who);
  l.add(4s, "before");
  l.add(5s, "d");
  l.finish();
  CHECK((l.came == arrivals{{4s, "before"}, {5s, "a"}, {5s, "b"}, {5s, "c"}, {5s, "d"}}));
  CHECK(l.requests.out_of_order() == 1);
  CHECK(l.requests.late() == 0);
}

TEST_CASE("a line out of order by up to a span finds its place", "[arrival_order]") {
  replayed l;
  l.add(100s, "a");
  l.add(41s, "b");  // 59 s
  l.add(40s, "c");  // 60 s: it is due at once
  CHECK((l.came == arrivals{{40s, "c"}}));
  l.add(99s, "d");
  l.finish();
  CHECK((l.came == arrivals{{40s, "c"}, {41s, "b"}, {99s, "d"}, {100s, "a"}}));
  CHECK(l.requests.out_of_order() == 3);
  CHECK(l.requests.late() == 0);
}

TEST_CASE("a later line comes at the time that was reached", "[arrival_order]") {
  replayed l;
  l.add(0s, "a");
  l.add(50s, "b");
  l.add(110s, "c");  // lets out a and b
  CHECK((l.came == arrivals{{0s, "a"}, {50s, "b"}}));
  l.add(49s, "late");
  CHECK((l.came == arrivals{{0s, "a"}, {50s, "b"}, {50s, "late"}}));
  l.add(50s, "in time");
  l.add(-1000s, "very late");
  l.add(51s, "waits");
  l.finish();
  CHECK((l.came ==
         arrivals{
             {0s, "a"}, {50s, "b"}, {50s, "late"}, {50s, "in time"}, {50s, "very late"}, {51s, "waits"}, {110s, "c"}}));
  CHECK(l.requests.out_of_order() == 4);
  CHECK(l.requests.late() == 2);
}

TEST_CASE("a log without lines has no arrivals", "[arrival_order]") {
  replayed l;
  l.finish();
  CHECK((l.came == arrivals{}));
  CHECK(l.requests.out_of_order() == 0);
  CHECK(l.requests.late() == 0);
}

TEST_CASE("more may follow an end", "[arrival_order]") {
  replayed l;
  l.add(0s, "a");
  l.finish();
  l.add(1s, "b");
  l.add(0s, "c");
  l.finish();
  CHECK((l.came == arrivals{{0s, "a"}, {0s, "c"}, {1s, "b"}}));
  CHECK(l.requests.out_of_order() == 1);
  CHECK(l.requests.late() == 0);
}
