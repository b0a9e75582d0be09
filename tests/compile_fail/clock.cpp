// A clock is what can tell the time as a time_point, or leave it to the store.
// says: constraints? not satisfied
// says: satisf(y|action of) .time_source
#include <ratelimit/memory.hpp>
#include <ratelimit/sliding_log.hpp>

struct seconds_clock {
  long now() const { return 1'700'000'000; }
};

struct microseconds_clock {
  ratelimit::time_point now() const { return ratelimit::time_point{std::chrono::seconds{1'700'000'000}}; }
};

#ifdef WRONG
using limiter = ratelimit::sliding_log<ratelimit::memory, seconds_clock>;
#else
using limiter = ratelimit::sliding_log<ratelimit::memory, microseconds_clock>;
#endif
