// The server's command line, and the one thing that does not belong there.
#pragma once

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace api_server {

inline constexpr std::string_view usage = R"(usage: api_server [--redis URL] [--host ADDRESS] [--port N]

  --redis URL     where to count: redis://user:password@host:port/database or unix:///path/of/socket
                  (without it: in this process)
  --host ADDRESS  the address to listen at (127.0.0.1)
  --port N        the port to listen at, 0 for any free one (8080)
  --help          prints this

With API_SERVER_SECRET in the environment (16 bytes or more, the same for all servers that count together) no address
of a client is stored, but a pseudonym that changes each day.

GET /api/v1/discover?region=R      X-API-Key      per account and region: br de fr gb in jp kr us; the top tier (eve)
                                                  has three limits: per region, per day, and over all regions
GET /api/v1/trending                              per client address
GET /api/v1/search?q=Q&page_size=N X-API-Key      per account, one unit for each ten hits
GET /api/v1/titles/ID                             per client address
GET /api/v1/genres                                the default limit, per client address
POST /api/v1/login                 user=U&password=P (ada, password-of-ada): blocked after three failures
GET /healthz, GET /metrics                        no limit
)";

struct options {
  std::string redis_url;  // empty: count in this process
  std::string secret;     // of the clients' pseudonyms; empty: none. Not an option: `ps` would show it
  std::string host = "127.0.0.1";
  int port = 8080;
  bool help = false;
};

// Throws std::runtime_error with the option and its value.
inline options parse_options(const std::vector<std::string_view>& arguments) {
  options parsed;
  if (const char* const secret = std::getenv("API_SERVER_SECRET")) parsed.secret = secret;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string option{arguments[i]};
    if (option == "--help") {
      parsed.help = true;
      return parsed;
    }
    if (option != "--redis" && option != "--host" && option != "--port") {
      throw std::runtime_error{option + ": no such option; --help tells which there are"};
    }
    if (++i == arguments.size()) throw std::runtime_error{option + ": its value is missing"};
    const std::string value{arguments[i]};
    if (option == "--redis") {
      parsed.redis_url = value;
    } else if (option == "--host") {
      parsed.host = value;
    } else {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed.port);
      if (error != std::errc{} || end != value.data() + value.size() || parsed.port < 0 || parsed.port > 65535) {
        throw std::runtime_error{"--port: \"" + value + "\" is not a whole number from 0 to 65535"};
      }
    }
  }
  return parsed;
}

}  // namespace api_server
