// Who asks where no key is needed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <httplib.h>

#include <ratelimit/http/client_address.hpp>
#include <ratelimit/pseudonym.hpp>

namespace api_server {

// Names clients by their address. With a secret, a name tells nobody the address: it is what Redis gets to see.
class client_names {
 public:
  // Servers that count together need the same secret, of 16 bytes or more. Empty: names are the addresses.
  explicit client_names(std::string_view secret) {
    if (!secret.empty()) hide_.emplace(secret);
  }

  std::string operator()(const httplib::Request& request) const { return hidden(address(request)); }

  // One for each account that the client tries to be: neighbours behind one address do not share it, and nobody can use
  // up that of an account's owner.
  std::string operator()(const httplib::Request& request, std::string_view account) const {
    return hidden(address(request) + ' ' + std::string{account});
  }

 private:
  std::string hidden(std::string name) const { return hide_ ? (*hide_)(name) : name; }

  // An IPv4 address, or an IPv6 network. Behind a proxy of your own, list it here: or else its address is all that is
  // seen, and all clients share one quota. While the list is empty the header changes nothing, since anybody can send
  // it.
  static std::string address(const httplib::Request& request) {
    static const ratelimit::http::proxies trusted{};
    std::string forwarded;
    for (auto [line, end] = request.headers.equal_range("X-Forwarded-For"); line != end; ++line) {
      forwarded.append(forwarded.empty() ? "" : ",").append(line->second);
    }
    return ratelimit::http::client_address(request.remote_addr, forwarded, trusted);
  }

  std::optional<ratelimit::pseudonym<>> hide_;
};

}  // namespace api_server
