// What an outage of the store means is chosen by whoever writes the limit: there is no default to fall into.
// says: on_failure is missing: choose fail::open, fail::closed or fail::local
// says: on_failure_fixed_window.cpp:1[0-9]
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/memory.hpp>

void limits(ratelimit::memory& memory) {
  using namespace std::chrono_literals;
#ifdef WRONG
  ratelimit::fixed_window titles{memory, {.name = "titles", .limit = 5000, .window = 24h}};
#else
  ratelimit::fixed_window titles{memory,
                                 {.name = "titles", .limit = 5000, .window = 24h, .on_failure = ratelimit::fail::open}};
#endif
}
