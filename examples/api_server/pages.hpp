// The pages: stand-ins for what a real server does. None of them knows of limits.
#pragma once

#include <string>

#include <httplib.h>

#include "accounts.hpp"
#include "parameters.hpp"
#include "problem.hpp"

namespace api_server::pages {

using httplib::Request, httplib::Response;

inline void answer(Response& response, const std::string& json) {
  response.set_content(json + "\n", "application/json");
}

inline void health(const Request&, Response& response) {
  answer(response, R"({"status":"ok"})");
}

inline void discover(const Request& request, Response& response) {
  answer(response, R"({"region":")" + request.get_param_value("region") + R"(","titles":[101,102,103]})");
}

inline void trending(const Request&, Response& response) {
  answer(response, R"({"titles":[104,101,105]})");
}

inline void search(const Request& request, Response& response) {
  answer(response, R"({"page_size":)" + std::to_string(page_size(request)) + R"(,"titles":[106]})");
}

inline void title(const Request& request, Response& response) {
  answer(response, R"({"title":)" + std::to_string(std::stoi(request.matches[1])) + "}");
}

inline void genres(const Request&, Response& response) {
  answer(response, R"({"genres":["comedy","crime","documentary"]})");
}

inline void signed_in(const account& known, Response& response) {
  answer(response, R"({"key":")" + std::string{known.key} + R"("})");
}

inline void not_found(const Request&, Response& response) {
  answer_problem(response, 404, "nothing is here; see /api/v1/discover, trending, search, titles/ID, genres and login");
}

}  // namespace api_server::pages
