// Signing in, where a limit counts failures and not requests.
#pragma once

#include <string>

#include <httplib.h>

#include <ratelimit/decision.hpp>

#include "accounts.hpp"
#include "client.hpp"
#include "guard.hpp"
#include "limits.hpp"
#include "pages.hpp"
#include "problem.hpp"

namespace api_server {

// Takes an attempt before it looks at the password: guesses that come all at once are counted like those that come one
// by one. The right password gives the attempts back; the last wrong one blocks the client from this account, on every
// server. Should Redis go away in between, the attempt stays counted, which is the safe side.
template <class Limiter>
httplib::Server::Handler login(Limiter attempts, client_names client) {
  return [=](const httplib::Request& request, httplib::Response& response) {
    const std::string name = request.get_param_value("user");
    const std::string password = request.get_param_value("password");
    if (name.empty() || password.empty()) throw problem{400, "a form with user and password is needed"};

    const std::string who = client(request, name);
    const ratelimit::decision d = attempts.check(who);
    if (!admit(d, response)) return;
    if (const account* const known = signed_in(name, password)) {
      attempts.reset(who);
      response.headers.clear();  // they tell of a quota that is full again
      pages::signed_in(*known, response);
      return;
    }
    if (d.remaining == 0) attempts.block(who, {}, login_pause);
    answer_problem(response, 401, "there is no such account, or its password is another one");
  };
}

}  // namespace api_server
