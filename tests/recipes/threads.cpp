// Many at once: reading, deciding and writing are one step.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "rows.hpp"

namespace {

using namespace recipes;

}  // namespace

TEMPLATE_TEST_CASE("Of eight threads' calls exactly the limit passes", "[recipes]", on_memory, on_redis) {
  TestType b;
  with_each(b, 100, 6000s, [&](const auto& limiter, const char* tag) {
    INFO(tag);
    std::atomic<int> passed{0}, uncounted{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          const auto d = limiter.check("client", "eu");
          passed += d.allowed;
          uncounted += !d.counted();
        }
      });
    for (auto& thread : threads) thread.join();
    CHECK(passed == 100);
    CHECK(uncounted == 0);
    const auto after = limiter.peek("client", "eu");
    CHECK(after.used == 100);
    CHECK(after.remaining == 0);
  });
}
