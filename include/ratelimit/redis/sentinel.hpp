// A master that sentinels watch over, and whoever takes its place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/ask.hpp>
#include <ratelimit/redis/batch.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/learned.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// The sentinels are asked in turn, each with its share of the time, from the one that answered last; and what they call
// the master is asked for its ROLE, since their word may be old (Redis documentation, "Guidelines for Redis clients
// with support for Redis Sentinel"). They are asked again when a connection is lost or refused, and when the master
// turns out to be one no more. Then the connections to the old one are dropped, as soon as nobody uses them.
class sentinel {
 public:
  explicit sentinel(redis_options chosen) : options_{std::move(chosen)} {}

  static bool can_join(std::span<const request>) noexcept { return true; }

  void run_many(const batch& all, const deadline& until) {
    const auto find = [this](const known& old, const deadline& by) { return find_master(old, by); };
    std::vector<std::size_t> asked = all.all();
    named_by name = named_by::sha1;
    pauses between{until};
    for (bool first = true;; first = false) {
      const auto [at, failed] = master_.current(until, find);
      if (!at) {
        if (first)
          for (const std::size_t group : asked) all.fail(group, failed);
        return;
      }
      const hearing heard = ask(*at->server, all, asked, {.name = name}, until);
      const sorted what = sort_refusals(heard.refusals, name);
      std::vector<std::size_t> again;
      for (const std::size_t index : what.again) again.push_back(asked[index]);
      if (heard.broken == errc::refused) {
        if (!master_.anew(at, until, find).known) return;
        again = std::move(asked);
      } else if (heard.broken) {
        master_.doubt();
      }
      if (again.empty()) return;
      if (what.demoted && !master_.anew(at, until, find).known) master_.doubt();
      if ((what.later || heard.broken) && !between.pause()) return;
      if (what.unknown) name = named_by::source;
      asked = std::move(again);
    }
  }

 private:
  struct master {
    redis_address address;
    std::shared_ptr<pool> server;
  };
  using known = learned<master>::pointer;
  using news = learned<master>::news;

  // What refusals ask for, all of which ran nothing.
  struct sorted {
    std::vector<std::size_t> again{};
    bool unknown = false;  // the script is wanted whole
    bool later = false;    // it may go better after a pause
    bool demoted = false;  // the server is no master
  };

  static sorted sort_refusals(const std::vector<refusal>& all, named_by name) {
    sorted made;
    for (const refusal& one : all) {
      // READONLY: a replica, or a master demoted. MASTERDOWN: a replica that has lost its master.
      const bool demoted = one.text.starts_with("READONLY") || one.text.starts_with("MASTERDOWN");
      const bool unknown = name == named_by::sha1 && again_after(one.text) == again::by_source;
      const bool later = demoted || again_after(one.text) == again::later;
      if (unknown || later) made.again.push_back(one.index);
      made.demoted = made.demoted || demoted;
      made.unknown = made.unknown || unknown;
      made.later = made.later || later;
    }
    return made;
  }

  news find_master(const known& old, const deadline& until) {
    const std::size_t count = options_.nodes.size();
    const std::size_t start = last_that_knew_;
    news made;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (start + i) % count;
      const deadline share{until.left() / static_cast<int>(count - i)};
      redis_address address;
      std::error_code failed = ask_sentinel(options_.nodes[at], address, share);
      if (!failed) {
        const bool same = old && old->address == address;
        const auto server = same ? old->server : std::make_shared<pool>(options_for(options_, address));
        failed = require_master(*server, share);
        if (!failed) {
          last_that_knew_ = at;
          return {.known = std::make_shared<const master>(master{std::move(address), server})};
        }
      }
      // What somebody answered says more than that another was not there.
      if (!made.failed || made.failed == errc::refused || made.failed == errc::timeout) made.failed = failed;
    }
    return made;
  }

  // On a connection of its own: a sentinel is asked too seldom to keep one.
  std::error_code ask_sentinel(const redis_address& where, redis_address& told, const deadline& until) const {
    redis_options chosen = options_for(options_, where);
    chosen.username = options_.sentinel_username;
    chosen.password = options_.sentinel_password;
    chosen.database = 0;
    chosen.connections = 1;
    chosen.observer = {};
    std::string question;
    append_command(question,
                   std::array<std::string_view, 3>{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.master_name});
    std::error_code failed;
    const std::error_code broken = pool{std::move(chosen)}.call(question, 1, until, [&](const redisReply& got) {
      failed = read_address(got, told);
      return failed;
    });
    return broken ? broken : failed;
  }

  static std::error_code read_address(const redisReply& got, redis_address& told) {
    if (is_error(got)) return errc_of(text_of(got));
    if (got.type == REDIS_REPLY_NIL) return errc::cluster;  // no master of that name
    if (got.type != REDIS_REPLY_ARRAY || got.elements != 2 || got.element[0]->type != REDIS_REPLY_STRING ||
        got.element[1]->type != REDIS_REPLY_STRING)
      return errc::protocol;
    const auto port = port_number(text_of(*got.element[1]));
    if (!port) return errc::protocol;
    told = {std::string{text_of(*got.element[0])}, *port};
    return {};
  }

  // Where ROLE is not to be asked, for the user or for anybody, READONLY will tell.
  static std::error_code require_master(pool& server, const deadline& until) {
    std::string question;
    append_command(question, std::array<std::string_view, 1>{"ROLE"});
    std::error_code failed;
    const std::error_code broken = server.call(question, 1, until, [&](const redisReply& got) -> std::error_code {
      if (is_error(got)) {
        const errc kind = errc_of(text_of(got));
        if (kind != errc::permission && kind != errc::script && kind != errc::unsupported_server) failed = kind;
      } else if (got.type != REDIS_REPLY_ARRAY || got.elements == 0 || got.element[0]->type != REDIS_REPLY_STRING) {
        failed = errc::protocol;
      } else if (text_of(*got.element[0]) != "master") {
        failed = errc::read_only;
      }
      return failed;
    });
    return broken ? broken : failed;
  }

  redis_options options_;
  learned<master> master_{};
  std::atomic<std::size_t> last_that_knew_{0};
};

}  // namespace ratelimit::detail
