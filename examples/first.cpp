// Three calls each ten seconds: the fourth has to wait.
#include <chrono>
#include <iostream>

#include <ratelimit/ratelimit.hpp>

int main() {
  using namespace std::chrono;
  ratelimit::memory store;  // many servers, one quota: ratelimit::redis store{"redis://127.0.0.1:6379"};
  ratelimit::sliding_log limiter{store,
                                 {.name = "first", .limit = 3, .window = 10s, .on_failure = ratelimit::fail::open}};

  for (int call = 1; call <= 4; ++call) {
    const ratelimit::decision d = limiter.check("ada", "de");  // who asks, and in which region
    std::cout << "call " << call << (d.allowed ? ": allowed, " : ": refused, ") << d.remaining << " left";
    if (d.retry_after) std::cout << ", again in " << ceil<milliseconds>(*d.retry_after).count() << " ms";
    std::cout << '\n';
  }
}
