// A store is what can run a request and tell its origin; anything else is refused by the concept's name.
// says: constraints? not satisfied
// says: satisf(y|action of) .store
#include <ratelimit/memory.hpp>
#include <ratelimit/sliding_log.hpp>

#include <map>
#include <string>

#ifdef WRONG
using place = std::map<std::string, int>;
#else
using place = ratelimit::memory;
#endif
using limiter = ratelimit::sliding_log<place>;
