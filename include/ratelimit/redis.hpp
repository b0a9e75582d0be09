// The Redis store: one check is one EVALSHA, one round trip.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <ratelimit/failure.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/script.hpp>
#include <ratelimit/redis/url.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// Thread-safe; share one per process. It must outlive the limiters built on it, and every call on them.
//
// Nothing is sent when it is built: Redis may be down then, and is dialled when first needed. A check's deadline bounds
// all of it: the wait for a connection, connecting, AUTH and SELECT, sending, receiving, and the one repetition there
// is. What it does not bound is the lookup of a host's name (redis_options::host).
//
// A script is sent by its SHA-1; where the server does not know it (it was restarted, or SCRIPT FLUSH ran), its source
// follows once. Nothing else is ever sent twice, except where the connection was found closed before the server had all
// of the command. After a timeout, a broken connection or a malformed answer the connection is dropped: no later check
// can read an earlier one's answer. No SIGPIPE is raised. A forked child dials connections of its own.
class redis {
 public:
  static constexpr source origin = source::redis;

  // redis://user:password@host:port/database or unix:///path?db=database; see redis/url.hpp. Throws
  // std::invalid_argument, which names the part at fault and never shows user information.
  explicit redis(std::string_view url) : redis{parse_redis_url(url)} {}
  // Throws std::invalid_argument with the option's name and value.
  explicit redis(redis_options chosen) : pool_{(detail::require_valid(chosen), std::move(chosen))} {}

  outcome run(const request& what, const deadline& until) {
    reading got = ask(what, detail::named_by::sha1, until);
    if (got.unknown_script) got = ask(what, detail::named_by::source, until);
    return got.result;
  }

 private:
  using reading = detail::reading;

  reading ask(const request& what, detail::named_by name, const deadline& until) {
    std::string command;
    detail::append_request(command, what, name);
    return pool_.call<reading>(command, until,
                               [&what](const redisReply& got) { return detail::read_reply(what, got); });
  }

  detail::pool pool_;
};

}  // namespace ratelimit
