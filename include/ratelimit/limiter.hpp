// What the four limiters share: check each call, build the request, and make a decision of what the store answers.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/algorithm/figures.hpp>
#include <ratelimit/call.hpp>
#include <ratelimit/clock.hpp>
#include <ratelimit/decision.hpp>
#include <ratelimit/deny_cache.hpp>
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/key.hpp>
#include <ratelimit/local_fallback.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/request.hpp>
#include <ratelimit/settings.hpp>

namespace ratelimit {

// The members of every limiter. Thread-safe, cheap to copy: copies share everything. The store must outlive them.
template <class Algorithm, store Store, time_source Clock>
class limiter {
 public:
  // Decides, and counts `cost` units when allowed; a cost of 0 is a peek. One round trip. Throws nothing that Redis,
  // the network or the caller's bytes can cause; an identity that is empty or over 512 bytes, a region over 512 bytes
  // and a negative cost are denied as source::invalid, whatever on_failure says.
  decision check(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return check(call{identity, region, cost});
  }
  decision check(const call& c) const { return answer(operation::take, c); }

  // What check would answer now; changes nothing. `used` and `remaining` are those before such a call.
  decision peek(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return peek(call{identity, region, cost});
  }
  decision peek(const call& c) const { return answer(operation::peek, c); }

  // Gives back `cost` units that a failed request took, the newest first: never more than are in force, so never above
  // the quota, and never what a window gone by took. The decision tells the quota after it.
  decision refund(std::string_view identity, std::string_view region, std::int64_t cost) const {
    return answer(operation::refund, {identity, region, cost});
  }

  // Forgets this key. Empty when done; otherwise why not.
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    const call c{identity, region};
    if (const std::error_code bad = invalid(c)) return bad;
    const detail::key key = key_for(c);
    const request what{Algorithm::id, operation::reset, key.view(), shared_->options.numbers, 1, std::nullopt};
    const std::error_code error = store_->run(what, deadline{shared_->options.deadline}).error;
    if (shared_->denied) shared_->denied->forget(key.view());
    return error;
  }

 protected:
  limiter(Store& where, detail::settings chosen, Clock clock) : store_{&where}, clock_{std::move(clock)} {
    detail::require_valid(chosen);
    shared_ = std::make_shared<shared>(std::move(chosen));
  }

 private:
  // What the copies of a limiter have in common.
  struct shared {
    explicit shared(detail::settings chosen)
        : options{std::move(chosen)}, key_head{detail::key_head(options.prefix, Algorithm::tag, options.name)} {
      if (options.deny_cache > 0) denied.emplace(options.deny_cache);
      if (options.on_failure != fail::local) return;
      local.emplace(options.local_share);
      require_share("local_share", options.numbers);
      for (const auto& [region, limit] : options.per_region)
        require_share("local_share of per_region[\"" + region + "\"]", {limit, options.numbers.window, 0});
    }

    void require_share(std::string_view option, const rule& numbers) const {
      if (local->share_of(numbers).limit == 0)
        detail::refuse(option, std::to_string(options.local_share),
                       "of " + std::to_string(numbers.limit) + " is less than one unit");
    }

    detail::settings options;
    std::string key_head;
    std::optional<deny_cache> denied;
    std::optional<local_fallback> local;
  };

  struct question {
    request what;
    bool never;  // a cost above the limit: what is left to ask is how the quota stands
  };

  question put(operation op, std::int64_t cost, const rule& numbers, std::string_view key) const {
    const bool never = op != operation::refund && cost > numbers.limit;
    if (cost == 0 || never) op = operation::peek;
    const std::int64_t asked = never ? 1 : std::clamp<std::int64_t>(cost, 1, detail::max_exact);
    return {{Algorithm::id, op, key, numbers, asked, clock_time()}, never};
  }

  detail::key key_for(const call& c) const { return {shared_->key_head, shared_->options.by, c.identity, c.region}; }

  decision answer(operation op, const call& c) const {
    const auto started = std::chrono::steady_clock::now();
    const decision d = enforce(decide(op, c, started));
    if (op != operation::peek) report(d, op, c, started);
    return d;
  }

  decision decide(operation op, const call& c, std::chrono::steady_clock::time_point started) const {
    const rule numbers = numbers_for(c);
    if (const std::error_code bad = invalid(c)) return uncounted(numbers, source::invalid, bad);

    const detail::key key = key_for(c);
    const question q = put(op, c.cost, numbers, key.view());
    const bool takes = q.what.op == operation::take;
    std::optional<deny_cache>& denied = shared_->denied;
    const std::int64_t asked_at = denied ? cache_time(started) : 0;
    if (denied && takes)
      if (std::optional<decision> known = denied->find(key.view(), c.cost, numbers.limit, asked_at)) return *known;

    const deadline until{started + shared_->options.deadline};
    const outcome seen = store_->run(q.what, until);
    if (seen.error) return without_store(op, c, numbers, key.view(), seen.error, until);
    if (shared_->local) shared_->local->end();
    const decision d = conclude(q, seen, Store::origin);
    if (denied && q.what.op == operation::refund) denied->forget(key.view());
    if (denied && takes && d.retry_after) denied->add(key.view(), c.cost, d, asked_at);
    return d;
  }

  // The decision that follows from what a store counted.
  decision conclude(const question& q, const outcome& seen, source from) const {
    using std::chrono::microseconds;
    const algorithm::figures f = Algorithm::explain(q.what.numbers, seen, q.what.cost);
    decision d = blank(q.what.numbers);
    d.allowed = q.what.op == operation::refund || (seen.allowed && !q.never);
    d.from = from;
    d.used = f.used;
    d.remaining = algorithm::remaining(q.what.numbers, f.used);
    if (!d.allowed && !q.never) d.retry_after = microseconds{f.retry};
    d.reset_after = microseconds{f.reset};
    d.full_after = microseconds{f.full};
    d.at = time_point{microseconds{seen.now}};
    return d;
  }

  decision without_store(operation op, const call& c, const rule& numbers, std::string_view key, std::error_code why,
                         const deadline& until) const {
    if (!shared_->local)
      return uncounted(numbers, shared_->options.on_failure == fail::open ? source::failed_open : source::failed_closed,
                       why);
    const question q = put(op, c.cost, shared_->local->share_of(numbers), key);
    decision d = conclude(q, shared_->local->run(q.what, until), source::local);
    d.error = why;
    return d;
  }

  decision blank(const rule& numbers) const {
    return {.limit_name = shared_->options.name,
            .limit = numbers.limit,
            .window = std::chrono::microseconds{Algorithm::span(numbers)}};
  }

  // Nobody counted: the numbers of the answer stay 0.
  decision uncounted(const rule& numbers, source from, std::error_code why) const {
    decision d = blank(numbers);
    d.allowed = from == source::failed_open;
    d.from = from;
    d.error = why;
    d.at = std::optional<time_point>{clock_.now()}.value_or(system_clock{}.now());
    return d;
  }

  decision enforce(decision d) const {
    if (shared_->options.shadow && !d.allowed) {
      d.would_deny = true;
      d.allowed = true;
      d.retry_after.reset();
    }
    return d;
  }

  void report(const decision& d, operation op, const call& c, std::chrono::steady_clock::time_point started) const {
    const observer& told = shared_->options.observer;
    if (told.decided) detail::tell(told.decided, observation{d, Algorithm::id, op, deadline::clock::now() - started});
    if (!told.near || op != operation::take || !d.allowed || d.would_deny || !d.counted()) return;
    const double edge = told.near_ratio * static_cast<double>(d.limit);
    if (static_cast<double>(d.used) >= edge && static_cast<double>(d.used - c.cost) < edge)
      detail::tell(told.near, near_limit{d, c.identity, c.region});
  }

  // Only what the key is made of is checked: the rest is not stored.
  std::error_code invalid(const call& c) const {
    const scope by = shared_->options.by;
    if (counts_identity(by) && (c.identity.empty() || c.identity.size() > max_key_part)) return errc::invalid_identity;
    if (counts_region(by) && c.region.size() > max_key_part) return errc::invalid_region;
    if (c.cost < 0) return errc::invalid_cost;
    if (c.limit && !detail::is_count(*c.limit)) return errc::invalid_limit;
    return {};
  }

  rule numbers_for(const call& c) const {
    rule numbers = shared_->options.numbers;
    const region_limits& own = shared_->options.per_region;
    if (c.limit) {
      numbers.limit = *c.limit;
    } else if (const auto found = own.find(c.region); found != own.end()) {
      numbers.limit = found->second;
    }
    return numbers;
  }

  // Kept within what the scripts hold exactly.
  std::optional<std::int64_t> clock_time() const {
    const std::optional<time_point> now = clock_.now();
    if (!now) return std::nullopt;
    return std::clamp(std::int64_t{now->time_since_epoch().count()}, -detail::max_exact, detail::max_exact);
  }

  // What the deny cache counts its waits by: the monotonic clock, or the clock that was injected in its place.
  std::int64_t cache_time(std::chrono::steady_clock::time_point started) const {
    if constexpr (!std::same_as<Clock, server_clock> && !std::same_as<Clock, system_clock>)
      if (const std::optional<std::int64_t> now = clock_time()) return *now;
    return std::chrono::duration_cast<std::chrono::microseconds>(started.time_since_epoch()).count();
  }

  Store* store_;
  Clock clock_;
  std::shared_ptr<shared> shared_;
};

}  // namespace ratelimit
