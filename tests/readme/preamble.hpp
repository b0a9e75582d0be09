// What the snippets of README.md take for granted.
#include <cassert>
#include <string>
#include <string_view>

#include <ratelimit/ratelimit.hpp>

using namespace std::chrono_literals;
using ratelimit::fail;

inline ratelimit::redis redis{"redis://127.0.0.1:6379"};
inline ratelimit::sliding_log limiter{redis, {.name = "readme", .limit = 3, .window = 10s, .on_failure = fail::open}};
inline std::string_view identity, region, peer, forwarded_for;
struct response_of_any_framework {
  int status = 200;
  void set_header(const std::string&, const std::string&) {}
  void set_content(const std::string&, const std::string&) {}
};
inline response_of_any_framework response;
