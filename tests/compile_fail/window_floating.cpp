// A window is a whole number of microseconds by its type: 0.1 s as a double is not.
// says: window_floating.cpp:1[0-9]
// says: period
#include <ratelimit/fixed_window.hpp>

using namespace std::chrono_literals;

ratelimit::fixed_window_options window{.name = "burst",
                                       .limit = 10,
#ifdef WRONG
                                       .window = 0.1s,
#else
                                       .window = 100ms,
#endif
                                       .on_failure = ratelimit::fail::open};
