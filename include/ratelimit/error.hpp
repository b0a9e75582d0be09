// Why a call was not counted: one error_code category for what a store, the network or the caller's arguments can
// cause.
#pragma once

#include <string>
#include <system_error>

namespace ratelimit {

enum class errc {
  // The store could not be asked, or did not answer in time.
  timeout = 1,  // the deadline passed; the call may or may not have been counted
  refused,      // nobody listens at the address, or its name has no address
  closed,       // the connection broke before an answer came
  protocol,     // what came back is not an answer of this library's scripts
  // The server answered, and refused.
  permission,          // NOAUTH, WRONGPASS, NOPERM: credentials or ACL
  out_of_memory,       // OOM: maxmemory is reached and nothing may be evicted
  read_only,           // READONLY: a replica, or a demoted master
  loading,             // LOADING: the data set is being read from disk
  busy,                // BUSY: another client's script is running
  cluster,             // MOVED, ASK, CROSSSLOT, CLUSTERDOWN, TRYAGAIN, MASTERDOWN
  script,              // any other error a script ended with, WRONGTYPE among them
  too_many_clients,    // the server's maxclients is reached
  unsupported_server,  // it is older than Redis 5, or a proxy without scripts; 7.0 is the oldest that is tested
  tls,                 // no secure connection: the certificate is not trusted, or the server speaks no TLS
  database,            // the server has none of that number
  // The call was malformed: nothing was sent.
  invalid_identity,    // empty, or longer than 512 bytes
  invalid_region,      // longer than 512 bytes
  invalid_cost,        // negative
  invalid_limit,       // call::limit is not within 1 and 2^53 - 1, or given to an all_of
  invalid_request_id,  // longer than 512 bytes
  invalid_duration,    // a block's length is not within 1 us and 10 years
};

namespace detail {

class error_category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "ratelimit"; }

  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::timeout: return "timeout: no answer within the deadline";
      case errc::refused: return "refused: no connection to the server";
      case errc::closed: return "closed: the connection broke before the answer";
      case errc::protocol: return "protocol: the answer is not one of this library's scripts'";
      case errc::permission: return "permission: the server refused the credentials or the command";
      case errc::out_of_memory: return "out of memory: the server's maxmemory is reached";
      case errc::read_only: return "read-only: the server is a replica";
      case errc::loading: return "loading: the server is reading its data set";
      case errc::busy: return "busy: the server is running another script";
      case errc::cluster: return "cluster: the keys are served elsewhere, or by nobody";
      case errc::script: return "script error: the server ended the script with an error";
      case errc::too_many_clients: return "too many clients: the server's maxclients is reached";
      case errc::unsupported_server:
        return "unsupported server: too old for this library's scripts; use Redis 7.0 or newer";
      case errc::tls: return "tls: the certificate is not trusted, or the server speaks no TLS";
      case errc::database: return "database: the server has none of that number";
      case errc::invalid_identity: return "invalid identity: empty, or longer than 512 bytes";
      case errc::invalid_region: return "invalid region: longer than 512 bytes";
      case errc::invalid_cost: return "invalid cost: negative";
      case errc::invalid_limit: return "invalid limit: not within 1 and 2^53 - 1";
      case errc::invalid_request_id: return "invalid request id: longer than 512 bytes";
      case errc::invalid_duration: return "invalid duration: not within 1 us and 10 years";
    }
    return "unknown error " + std::to_string(value);
  }
};

}  // namespace detail

inline const std::error_category& error_category() noexcept {
  static const detail::error_category category;
  return category;
}

inline std::error_code make_error_code(errc value) noexcept {
  return {static_cast<int>(value), error_category()};
}

}  // namespace ratelimit

template <>
struct std::is_error_code_enum<ratelimit::errc> : std::true_type {};
