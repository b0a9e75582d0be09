// The Redis store: one check is one EVALSHA, one round trip.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include <ratelimit/failure.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/redis/batch.hpp>
#include <ratelimit/redis/cluster.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/sentinel.hpp>
#include <ratelimit/redis/single.hpp>
#include <ratelimit/redis/url.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// Thread-safe; share one per process: threads that check at the same time share its connections' system calls, without
// a thread of its own. It must outlive the limiters built on it, and every call on them: to destroy it while it is
// being asked is an error, which a build without NDEBUG asserts.
//
// Nothing is sent when it is built: Redis may be down then, and is dialled when first needed. A check's deadline bounds
// all of it: the wait for a connection, connecting, AUTH and SELECT, sending, receiving, and every repetition. What it
// does not bound is the lookup of a host's name (redis_options::host).
//
// A script is sent by its SHA-1; where the server does not know it (it was restarted, or SCRIPT FLUSH ran), its source
// follows once. A refusal that passes by itself (LOADING, BUSY, TRYAGAIN, CLUSTERDOWN, MASTERDOWN) is waited out for a
// few milliseconds, and a server that says it is not the one to ask is believed. A check that found its connection
// closed before a byte of it was sent is sent once on another. Nothing else is ever sent twice. When a connection
// breaks, or says what is no answer, the checks that were on it fail, and it is never used again: no check can read
// another one's answer. No SIGPIPE is raised. A forked child dials connections of its own.
//
// A server that does not answer is left alone for a while: see redis_options::failures.
class redis {
 public:
  static constexpr source origin = source::redis;

  // redis://user:password@host:port/database, unix:///path?db=database, redis+sentinel://host,host/master or
  // redis+cluster://host,host; see redis/url.hpp. Throws std::invalid_argument, which names the part at fault and never
  // shows user information.
  explicit redis(std::string_view url) : redis{parse_redis_url(url)} {}
  // Throws std::invalid_argument with the option's name and value.
  explicit redis(redis_options chosen) : route_{route_for((detail::require_valid(chosen), heard(std::move(chosen))))} {}
  redis(const redis&) = delete;
  redis& operator=(const redis&) = delete;
  ~redis() { *over_ = true; }

  outcome run(const request& what, const deadline& until) {
    if (auto* const one = std::get_if<detail::single>(&route_)) return one->run(what, until);
    outcome out;
    run_many({&what, 1}, 1, {&out, 1}, until);
    return out;
  }

  // Keys can be decided in one step on one server, and on a cluster where they share a slot.
  bool can_join(std::span<const request> group) const noexcept {
    return std::visit([&](const auto& to) { return to.can_join(group); }, route_);
  }

  // One pipeline to each server that has some of the keys, and more for the groups that are asked again.
  void run_many(std::span<const request> what, std::size_t together, std::span<outcome> out, const deadline& until) {
    std::visit([&](auto& to) { to.run_many({what, together, out}, until); }, route_);
  }

 private:
  using route = std::variant<detail::single, detail::sentinel, detail::cluster>;

  // An observer may ask the store, but not while it is being destroyed: then nothing is told.
  redis_options heard(redis_options chosen) const {
    if (auto& told = chosen.observer.breaker)
      told = [over = over_, to = std::move(told)](const breaker_change& change) {
        if (!*over) to(change);
      };
    return chosen;
  }

  static route route_for(redis_options chosen) {
    switch (chosen.mode) {
      case redis_mode::sentinel: return route{std::in_place_type<detail::sentinel>, std::move(chosen)};
      case redis_mode::cluster: return route{std::in_place_type<detail::cluster>, std::move(chosen)};
      case redis_mode::single: break;
    }
    return route{std::in_place_type<detail::single>, std::move(chosen)};
  }

  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  route route_;
};

}  // namespace ratelimit
