// A window is a whole number of microseconds by its type: one in nanoseconds would have to be cut.
// says: window_nanoseconds.cpp:1[0-9]
// says: period
#include <ratelimit/fixed_window.hpp>

using namespace std::chrono_literals;

ratelimit::fixed_window_options window{.name = "burst",
                                       .limit = 10,
#ifdef WRONG
                                       .window = 100'000'000ns,
#else
                                       .window = 100'000us,
#endif
                                       .on_failure = ratelimit::fail::open};
