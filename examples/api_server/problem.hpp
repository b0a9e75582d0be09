// An answer that is not the page: the status, and a text for whoever wrote the client (RFC 9457).
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <httplib.h>

namespace api_server {

// Thrown by whatever reads a request. The text goes to the client: plain ASCII, no quotes, nothing the client sent.
class problem : public std::runtime_error {
 public:
  problem(int status, const std::string& detail) : std::runtime_error{detail}, status_{status} {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

inline void answer_problem(httplib::Response& response, int status, std::string_view detail) {
  response.status = status;
  response.set_content("{\"type\":\"about:blank\",\"status\":" + std::to_string(status) + ",\"detail\":\"" +
                           std::string{detail} + "\"}\n",
                       "application/problem+json");
}

// For httplib's set_exception_handler: its own default would tell the client the exception's text.
inline void answer_exception(const httplib::Request&, httplib::Response& response, std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const problem& known) {
    answer_problem(response, known.status(), known.what());
  } catch (...) {
    answer_problem(response, 500, "something went wrong here");
  }
}

}  // namespace api_server
