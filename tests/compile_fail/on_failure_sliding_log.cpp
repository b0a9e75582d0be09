// What an outage of the store means is chosen by whoever writes the limit: there is no default to fall into.
// says: on_failure is missing: choose fail::open, fail::closed or fail::local
// says: on_failure_sliding_log.cpp:1[0-9]
#include <ratelimit/memory.hpp>
#include <ratelimit/sliding_log.hpp>

void limits(ratelimit::memory& memory) {
  using namespace std::chrono_literals;
#ifdef WRONG
  ratelimit::sliding_log discover{memory, {.name = "discover", .limit = 100, .window = 60s}};
#else
  ratelimit::sliding_log discover{
      memory, {.name = "discover", .limit = 100, .window = 60s, .on_failure = ratelimit::fail::open}};
#endif
}
