// Puts a limit before a page: the only place where a decision becomes HTTP.
#pragma once

#include <string>
#include <utility>

#include <httplib.h>

#include <ratelimit/decision.hpp>
#include <ratelimit/http/headers.hpp>
#include <ratelimit/http/problem.hpp>
#include <ratelimit/http/status.hpp>

namespace api_server {

// Whether the request may go on; when not, it is answered. A refusal is 429 when the client is over its limit, 503 when
// a fail::closed limit could not be asked: that is no fault of the client's.
template <class Decision>
bool admit(const Decision& d, httplib::Response& response) {
  for (const auto& [name, value] : ratelimit::http::headers(d)) response.set_header(name, value);
  // For whoever tries this example: a real server tells it to its metrics only.
  response.set_header("X-Decided-By", std::string{to_string(d.from)});
  if (d.allowed) return true;
  response.status = ratelimit::http::status(d);
  response.set_content(ratelimit::http::problem_json(d) + "\n", std::string{ratelimit::http::problem_media_type});
  return false;
}

// `ask` makes a decision of a request; `page` answers it when it may pass.
template <class Ask>
httplib::Server::Handler guarded(Ask ask, httplib::Server::Handler page) {
  return [ask = std::move(ask), page = std::move(page)](const httplib::Request& request, httplib::Response& response) {
    if (admit(ask(request), response)) page(request, response);
  };
}

}  // namespace api_server
