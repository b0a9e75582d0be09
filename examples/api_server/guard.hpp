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

// `ask` makes a decision of a request; `page` answers it when it may pass. A refusal is 429 when the client is over its
// limit, 503 when a fail::closed limit could not be asked: that is no fault of the client's.
template <class Ask>
httplib::Server::Handler guarded(Ask ask, httplib::Server::Handler page) {
  return [ask = std::move(ask), page = std::move(page)](const httplib::Request& request, httplib::Response& response) {
    const ratelimit::decision d = ask(request);
    for (const auto& [name, value] : ratelimit::http::headers(d)) response.set_header(name, value);
    if (d.allowed) {
      page(request, response);
    } else {
      response.status = ratelimit::http::status(d);
      response.set_content(ratelimit::http::problem_json(d) + "\n", std::string{ratelimit::http::problem_media_type});
    }
  };
}

}  // namespace api_server
