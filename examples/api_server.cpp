// A small API server that asks, before it handles a request, whether this client may.
//
//   api_server                                        counts in this process
//   api_server --redis redis://127.0.0.1:6379         counts in Redis, together with every other server that does
//   curl -i -H 'X-API-Key: key-of-ada' 'http://127.0.0.1:8080/api/v1/discover?region=jp'
#include <chrono>
#include <exception>
#include <iostream>
#include <string>

#include <httplib.h>

#include <ratelimit/ratelimit.hpp>

#include "api_server/guard.hpp"
#include "api_server/options.hpp"
#include "api_server/pages.hpp"
#include "api_server/parameters.hpp"
#include "api_server/run.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::fail;
using ratelimit::scope;

// The limits, all of them.

// Exact: the page is dear to make. Each account has a quota in each region, and the regions are not of one size.
const ratelimit::sliding_log_options discover_limit{
    .name = "discover",
    .limit = 20,
    .window = 1min,
    .on_failure = fail::open,
    .per_region = {{"br", 30}, {"de", 30}, {"fr", 20}, {"gb", 30}, {"in", 40}, {"jp", 25}, {"kr", 25}, {"us", 60}}};

// Anybody may ask, so there may be millions to count: a few bytes each.
const ratelimit::sliding_counter_options trending_limit{
    .name = "trending", .limit = 40, .window = 1min, .on_failure = fail::open, .by = scope::identity};

// Bursts are welcome, steady load is not, and a large page costs more than a small one. What the search engine is not
// protected from takes it down: rather no search than an uncounted one.
const ratelimit::token_bucket_options search_limit{
    .name = "search", .capacity = 30, .refill = 1, .per = 1s, .on_failure = fail::closed, .by = scope::identity};

// The fast path: the least work for each call, and good enough, since a title comes out of a cache.
const ratelimit::fixed_window_options title_limit{
    .name = "title", .limit = 120, .window = 1min, .on_failure = fail::open, .by = scope::identity};

// Every route that has no limit of its own, unknown ones included.
const ratelimit::sliding_counter_options default_limit{
    .name = "default", .limit = 60, .window = 1min, .on_failure = fail::open, .by = scope::identity};

// Which route asks which limit: who is counted, where, and for how much.
template <ratelimit::store Store>
void add_routes(httplib::Server& server, Store& store) {
  using namespace api_server;
  using httplib::Request;

  const ratelimit::sliding_log discover{store, discover_limit};
  const ratelimit::sliding_counter trending{store, trending_limit};
  const ratelimit::token_bucket search{store, search_limit};
  const ratelimit::fixed_window title{store, title_limit};
  const ratelimit::sliding_counter fallback{store, default_limit};

  // A limiter is cheap to copy: each route holds its own.
  const auto ask_discover = [=](const Request& r) {
    return discover.check(account(r), region(r, discover_limit.per_region));
  };
  const auto ask_trending = [=](const Request& r) { return trending.check(client(r)); };
  const auto ask_search = [=](const Request& r) { return search.check(account(r), {}, search_cost(r)); };
  const auto ask_title = [=](const Request& r) { return title.check(client(r)); };
  const auto ask_default = [=](const Request& r) { return fallback.check(client(r)); };

  server.Get("/healthz", pages::health);  // no limit: who watches over the server must always get through
  server.Get("/api/v1/discover", guarded(ask_discover, pages::discover));
  server.Get("/api/v1/trending", guarded(ask_trending, pages::trending));
  server.Get("/api/v1/search", guarded(ask_search, pages::search));
  server.Get("/api/v1/titles/([0-9]{1,9})", guarded(ask_title, pages::title));
  server.Get("/api/v1/genres", guarded(ask_default, pages::genres));

  const httplib::Server::Handler elsewhere = guarded(ask_default, pages::not_found);
  server.Get(".*", elsewhere).Post(".*", elsewhere).Put(".*", elsewhere).Patch(".*", elsewhere);
  server.Delete(".*", elsewhere).Options(".*", elsewhere);

  // Redis may be down when the server starts, and is asked again at each request: this is for whoever reads the log.
  if (const ratelimit::decision d = fallback.peek("start"); d.error) {
    std::cerr << "api_server: the store cannot be asked: " << d.error.message()
              << "; until it can, search answers 503 and all else passes uncounted\n";
  }
}

template <ratelimit::store Store>
void serve(Store& store, const api_server::options& chosen) {
  httplib::Server server;
  add_routes(server, store);
  api_server::run(server, chosen.host, chosen.port);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const api_server::options chosen = api_server::parse_options({argv + 1, argv + argc});
    if (chosen.help) {
      std::cout << api_server::usage;
    } else if (chosen.redis_url.empty()) {
      ratelimit::memory store;
      serve(store, chosen);
    } else {
      ratelimit::redis store{chosen.redis_url};
      serve(store, chosen);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "api_server: " << error.what() << '\n';
    return 1;
  }
}
