// What a user's first program does, in each of the ways a user may get the library.
#include <ratelimit/ratelimit.hpp>

int main() {
  using namespace std::chrono_literals;
  ratelimit::memory memory;
  ratelimit::sliding_log twice{memory,
                               {.name = "twice", .limit = 2, .window = 60s, .on_failure = ratelimit::fail::closed}};
  const bool right = twice.check("alice").allowed && twice.check("alice").remaining == 0 && !twice.check("alice");
  return right ? 0 : 1;
}
