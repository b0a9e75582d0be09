// Who has an account. A real server looks it up, and keeps a slow hash of the password, not the password.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <httplib.h>

#include "problem.hpp"

namespace api_server {

enum class tier { standard, top };

struct account {
  std::string_view name, key, password;
  tier level = tier::standard;
};

inline constexpr std::array<account, 5> accounts{{{"ada", "key-of-ada", "password-of-ada"},
                                                  {"ben", "key-of-ben", "password-of-ben"},
                                                  {"cleo", "key-of-cleo", "password-of-cleo"},
                                                  {"dan", "key-of-dan", "password-of-dan"},
                                                  {"eve", "key-of-eve", "password-of-eve", tier::top}}};

// The account whose key the request carries. A server must not count by a key that nobody issued, since each made-up
// key would bring a quota of its own; and it counts by the account, not the key: what it counts by can be read in
// Redis, and the key is a secret. Throws problem 401.
inline const account& account_of(const httplib::Request& request) {
  const std::string key = request.get_header_value("X-API-Key");
  for (const account& each : accounts) {
    if (key == each.key) return each;
  }
  throw problem{401, "X-API-Key: a known key is needed; this example knows key-of-ada, -ben, -cleo, -dan and -eve"};
}

// Null where there is no such account, or its password is another one.
inline const account* signed_in(std::string_view name, std::string_view password) {
  for (const account& each : accounts) {
    if (name == each.name && password == each.password) return &each;
  }
  return nullptr;
}

}  // namespace api_server
