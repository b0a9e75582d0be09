// What an outage of the store means is chosen by whoever writes the limit: there is no default to fall into.
// says: on_failure is missing: choose fail::open, fail::closed or fail::local
// says: on_failure_token_bucket.cpp:1[0-9]
#include <ratelimit/memory.hpp>
#include <ratelimit/token_bucket.hpp>

void limits(ratelimit::memory& memory) {
  using namespace std::chrono_literals;
#ifdef WRONG
  ratelimit::token_bucket search{memory, {.name = "search", .capacity = 10, .refill = 1, .per = 1s}};
#else
  ratelimit::token_bucket search{
      memory, {.name = "search", .capacity = 10, .refill = 1, .per = 1s, .on_failure = ratelimit::fail::open}};
#endif
}
