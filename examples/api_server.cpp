// A small API server that asks, before it handles a request, whether this client may.
//
//   api_server                                        counts in this process
//   api_server --redis redis://127.0.0.1:6379         counts in Redis, together with every other server that does
//   curl -i -H 'X-API-Key: key-of-ada' 'http://127.0.0.1:8080/api/v1/discover?region=jp'
#include <exception>
#include <iostream>

#include <httplib.h>

#include <ratelimit/ratelimit.hpp>

#include "api_server/accounts.hpp"
#include "api_server/client.hpp"
#include "api_server/guard.hpp"
#include "api_server/limits.hpp"
#include "api_server/login.hpp"
#include "api_server/options.hpp"
#include "api_server/pages.hpp"
#include "api_server/parameters.hpp"
#include "api_server/run.hpp"

namespace {

using namespace api_server;

// Which route asks which limit: who is counted, where, and for how much.
template <ratelimit::store Store>
void add_routes(httplib::Server& server, Store& store, const client_names& client, const ratelimit::metrics& counts) {
  using httplib::Request, httplib::Response;
  using ratelimit::policy;

  const auto observed = [&](auto options) {
    options.observer = counts;
    return options;
  };
  const policy discover = ratelimit::sliding_log{store, observed(discover_limit)};
  const policy top_discover = ratelimit::all_of{ratelimit::sliding_log{store, observed(top_region_limit)},
                                                ratelimit::fixed_window{store, observed(top_day_limit)},
                                                ratelimit::sliding_log{store, observed(top_ceiling_limit)}};
  const ratelimit::sliding_counter trending{store, observed(trending_limit)};
  const ratelimit::token_bucket search{store, observed(search_limit)};
  const ratelimit::fixed_window title{store, observed(title_limit)};
  const ratelimit::sliding_log attempts{store, observed(login_limit)};
  const ratelimit::sliding_counter fallback{store, observed(default_limit)};

  // A limiter is cheap to copy: each route holds its own.
  const auto ask_discover = [=](const Request& r) {
    const account& who = account_of(r);
    return (who.level == tier::top ? top_discover : discover).check(who.name, region(r, discover_limit.per_region));
  };
  const auto ask_trending = [=](const Request& r) { return trending.check(client(r)); };
  const auto ask_search = [=](const Request& r) { return search.check(account_of(r).name, {}, search_cost(r)); };
  const auto ask_title = [=](const Request& r) { return title.check(client(r)); };
  const auto ask_default = [=](const Request& r) { return fallback.check(client(r)); };

  server.Get("/api/v1/discover", guarded(ask_discover, pages::discover));
  server.Get("/api/v1/trending", guarded(ask_trending, pages::trending));
  server.Get("/api/v1/search", guarded(ask_search, pages::search));
  server.Get("/api/v1/titles/([0-9]{1,9})", guarded(ask_title, pages::title));
  server.Get("/api/v1/genres", guarded(ask_default, pages::genres));
  server.Post("/api/v1/login", login(attempts, client));

  // No limit: who watches over the server must always get through. Clients should not: close these to them.
  server.Get("/healthz", pages::health);
  server.Get("/metrics", [counts](const Request&, Response& response) {
    response.set_content(counts.text(), ratelimit::metrics::content_type);
  });

  const httplib::Server::Handler elsewhere = guarded(ask_default, pages::not_found);
  server.Get(".*", elsewhere).Post(".*", elsewhere).Put(".*", elsewhere).Patch(".*", elsewhere);
  server.Delete(".*", elsewhere).Options(".*", elsewhere);

  // Redis may be down when the server starts, and is asked again at each request: this is for whoever reads the log.
  if (const ratelimit::decision d = fallback.peek("start"); d.error) {
    std::cerr << "api_server: the store cannot be asked: " << d.error.message()
              << "; until it can, search and login answer 503, trending is counted here, all else passes uncounted\n";
  }
}

template <ratelimit::store Store>
void serve(Store& store, const options& chosen, const ratelimit::metrics& counts) {
  httplib::Server server;
  add_routes(server, store, client_names{chosen.secret}, counts);
  run(server, chosen.host, chosen.port);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const options chosen = parse_options({argv + 1, argv + argc});
    const ratelimit::metrics counts;
    if (chosen.help) {
      std::cout << usage;
    } else if (chosen.redis_url.empty()) {
      ratelimit::memory store;
      serve(store, chosen, counts);
    } else {
      ratelimit::redis_options where = ratelimit::parse_redis_url(chosen.redis_url);
      where.observer = counts;  // of the circuit breaker
      ratelimit::redis store{where};
      serve(store, chosen, counts);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "api_server: " << error.what() << '\n';
    return 1;
  }
}
