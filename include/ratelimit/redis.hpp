// The Redis store: one check is one EVALSHA, one round trip.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
    outcome out;
    run_many({&what, 1}, 1, {&out, 1}, until);
    return out;
  }

  // All keys of one server can be decided in one step.
  bool can_join(std::span<const request>) const noexcept { return true; }

  // One pipeline; and one more for the groups whose script the server did not know.
  void run_many(std::span<const request> what, std::size_t together, std::span<outcome> out, const deadline& until) {
    const std::size_t groups = what.size() / together;
    std::vector<std::size_t> asked(groups);
    std::iota(asked.begin(), asked.end(), std::size_t{0});
    for (const detail::named_by name : {detail::named_by::sha1, detail::named_by::source}) {
      std::vector<std::size_t> unknown;
      std::string commands;
      for (const std::size_t group : asked)
        detail::append_group(commands, what.subspan(group * together, together), name);
      std::size_t heard = 0;
      const std::error_code broken = pool_.call(commands, asked.size(), until, [&](const redisReply& got) {
        const std::size_t at = asked[heard++] * together;
        const detail::group_reading made =
            detail::read_group(what.subspan(at, together), got, out.subspan(at, together));
        if (made.unknown_script) unknown.push_back(at / together);
        return made.error();
      });
      for (; heard < asked.size(); ++heard)
        for (outcome& one : out.subspan(asked[heard] * together, together)) one = {.error = broken};
      if (unknown.empty()) return;
      asked = std::move(unknown);
    }
  }

 private:
  detail::pool pool_;
};

}  // namespace ratelimit
