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

template <class... Limits>
class all_of;

namespace detail {

// A call as it is put to a store.
struct question {
  request what;
  bool never;  // a cost above the limit: what is left to ask is how the quota stands
};

}  // namespace detail

// The members of every limiter. Thread-safe, cheap to copy: copies share everything. The store must outlive them.
template <class Algorithm, store Store, time_source Clock>
class limiter {
 public:
  using store_type = Store;

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

  // The same for units taken at a known time, the `at` of the decision that took them: then a window that has begun
  // since gives nothing back.
  decision refund(std::string_view identity, std::string_view region, std::int64_t cost, time_point taken) const {
    return answer(operation::refund, {identity, region, cost}, taken.time_since_epoch().count());
  }

  // Refuses every call of this key for `length` from now, in all processes: after n failed logins, say. A block that
  // ends later stays; reset lifts it. What was used stays used. Empty when done; otherwise why not.
  std::error_code block(std::string_view identity, std::string_view region, period length) const {
    if (length.count() < 1 || period{std::chrono::years{10}}.count() < length.count()) return errc::invalid_duration;
    return change(operation::block, {identity, region}, length.count());
  }

  // Forgets this key. Empty when done; otherwise why not.
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    return change(operation::reset, {identity, region}, 1);
  }

  // One pipeline for a batch: a decision for each call, in order, each decided on its own. The deadline is that of one
  // check, and bounds the wait for the store; what is not bounded is the work on the batch itself, some microseconds a
  // call. The deny cache is not asked.
  std::vector<decision> check_many(std::span<const call> calls) const requires batch_store<Store> {
    const auto started = deadline::clock::now();
    const deadline until{started + shared_->options.deadline};
    std::vector<decision> answers(calls.size());
    std::vector<std::size_t> asked;
    std::vector<std::string> keys;
    std::vector<std::string> ids;
    std::vector<request> what;
    std::vector<detail::question> questions;
    keys.reserve(calls.size());
    ids.reserve(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const rule numbers = numbers_for(calls[i]);
      if (const std::error_code bad = invalid(calls[i])) {
        answers[i] = uncounted(numbers, source::invalid, bad);
        continue;
      }
      keys.emplace_back(key_for(calls[i]).view());
      ids.emplace_back(id_for(calls[i], keys.back()));
      questions.push_back(put(operation::take, calls[i].cost, numbers, keys.back(), ids.back()));
      what.push_back(questions.back().what);
      asked.push_back(i);
    }
    std::vector<outcome> seen(what.size());
    store_->run_many(what, 1, seen, until);
    for (std::size_t n = 0; n < seen.size(); ++n)
      answers[asked[n]] = settle(questions[n], seen[n], operation::take, calls[asked[n]], until);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      answers[i] = enforce(answers[i]);
      report(answers[i], operation::take, calls[i], started);
    }
    return answers;
  }

 protected:
  limiter(Store& where, detail::settings chosen, Clock clock) : store_{&where}, clock_{std::move(clock)} {
    detail::require_valid(chosen);
    shared_ = std::make_shared<shared>(std::move(chosen));
  }

 private:
  template <class...>
  friend class all_of;

  // What the copies of a limiter have in common.
  struct shared {
    explicit shared(detail::settings chosen)
        : options{std::move(chosen)}, key_head{detail::key_head(options.prefix, options.tag, options.name)} {
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

  detail::question put(operation op, std::int64_t cost, const rule& numbers, std::string_view key,
                       std::string_view id) const {
    const bool never = op != operation::refund && cost > numbers.limit;
    if (cost == 0 || never) op = operation::peek;
    const std::int64_t asked = never ? 1 : std::clamp<std::int64_t>(cost, 1, detail::max_exact);
    return {.what = {.algorithm = shared_->options.algorithm,
                     .op = op,
                     .key = key,
                     .numbers = numbers,
                     .cost = asked,
                     .now = clock_time(),
                     .binding = !shared_->options.shadow,
                     .once = id,
                     .once_for = id.empty() ? 0 : Algorithm::span(numbers)},
            .never = never};
  }

  detail::key key_for(const call& c) const { return {shared_->key_head, shared_->options.by, c.identity, c.region}; }

  std::string id_for(const call& c, std::string_view key) const {
    return c.request_id.empty() ? std::string{}
                                : detail::id_key(key, shared_->options.by, c.request_id, c.identity, c.region);
  }

  std::error_code change(operation op, const call& c, std::int64_t cost) const {
    if (const std::error_code bad = invalid(c)) return bad;
    const detail::key key = key_for(c);
    const request what{shared_->options.algorithm, op, key.view(), numbers_for(c), cost, clock_time()};
    const std::error_code error = store_->run(what, deadline{shared_->options.deadline}).error;
    forget_denial(key.view());
    if (op == operation::reset && !error) end_outage(what);
    return error;
  }

  decision answer(operation op, const call& c, std::optional<std::int64_t> taken = {}) const {
    const auto started = std::chrono::steady_clock::now();
    const decision d = enforce(decide(op, c, taken, started));
    if (op != operation::peek) report(d, op, c, started);
    return d;
  }

  decision decide(operation op, const call& c, std::optional<std::int64_t> taken,
                  std::chrono::steady_clock::time_point started) const {
    const rule numbers = numbers_for(c);
    if (const std::error_code bad = invalid(c)) return uncounted(numbers, source::invalid, bad);

    const detail::key key = key_for(c);
    const std::string id = id_for(c, key.view());
    detail::question q = put(op, c.cost, numbers, key.view(), id);
    q.what.taken = taken;
    const bool takes = q.what.op == operation::take;
    std::optional<deny_cache>& denied = shared_->denied;
    const std::int64_t asked_at = denied ? cache_time(started) : 0;
    const std::uint64_t forgotten = denied ? denied->times_forgotten() : 0;
    // A call with an id may be one that was admitted, which only the store knows.
    if (denied && takes && c.request_id.empty())
      if (std::optional<decision> known = denied->find(key.view(), c.cost, numbers.limit, asked_at)) return *known;

    const deadline until{started + shared_->options.deadline};
    const outcome seen = store_->run(q.what, until);
    const decision d = settle(q, seen, op, c, until);
    if (seen.error) return d;
    if (q.what.op == operation::refund) forget_denial(key.view());
    if (denied && takes && d.retry_after) denied->add(key.view(), c.cost, d, asked_at, forgotten);
    return d;
  }

  decision settle(const detail::question& q, const outcome& seen, operation op, const call& c,
                  const deadline& until) const {
    if (seen.error) return without_store(q, op, c, seen.error, until);
    if (q.what.op == operation::take && seen.allowed && !seen.repeated) end_outage(q.what);
    return conclude(q, seen, Store::origin);
  }

  // The decision that follows from what a store counted.
  decision conclude(const detail::question& q, const outcome& seen, source from) const {
    using std::chrono::microseconds;
    const algorithm::figures f = Algorithm::explain(q.what.numbers, seen, q.what.cost);
    decision d = blank(q.what.numbers);
    d.allowed = q.what.op == operation::refund || (seen.allowed && !q.never);
    d.from = from;
    d.used = f.used;
    const std::int64_t held = seen.blocked != 0 ? std::max<std::int64_t>(seen.blocked - seen.now, 0) : 0;
    d.remaining = held > 0 ? 0 : algorithm::remaining(q.what.numbers, f.used);
    if (!d.allowed && !q.never) d.retry_after = microseconds{std::max(f.retry, held)};
    // A block's end brings back at once what was left before it.
    d.reset_after = microseconds{held > 0 && f.used < q.what.numbers.limit ? held : std::max(f.reset, held)};
    d.full_after = microseconds{f.full};
    d.at = time_point{microseconds{seen.now}};
    d.repeated = seen.repeated;
    return d;
  }

  decision without_store(const detail::question& asked, operation op, const call& c, std::error_code why,
                         const deadline& until) const {
    const rule& numbers = asked.what.numbers;
    if (!shared_->local) return uncounted(numbers, source_of_failure(), why);
    detail::question q = put(op, c.cost, shared_->local->share_of(numbers), asked.what.key, asked.what.once);
    q.what.taken = asked.what.taken;
    decision d = conclude(q, shared_->local->run(q.what, until), source::local);
    d.error = why;
    return d;
  }

  // A limit in shadow never refuses.
  bool refuses_when_ill() const noexcept {
    return shared_->options.on_failure == fail::closed && !shared_->options.shadow;
  }
  source source_of_failure() const noexcept {
    return shared_->options.on_failure == fail::closed ? source::failed_closed : source::failed_open;
  }

  void forget_denial(std::string_view key) const {
    if (shared_->denied) shared_->denied->forget(key);
  }
  void end_outage(const request& written) const {
    if (shared_->local) shared_->local->end(written);
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

  // `passed`: the call was not refused by another limit beside this one.
  void report(const decision& d, operation op, const call& c, std::chrono::steady_clock::time_point started,
              bool passed = true) const {
    const observer& told = shared_->options.observer;
    if (told.decided)
      detail::tell(told.decided, observation{d, shared_->options.algorithm, op, deadline::clock::now() - started});
    if (!told.near || op != operation::take || !passed || !d.allowed || d.would_deny || !d.counted() || d.repeated)
      return;
    const double edge = told.near_ratio * static_cast<double>(d.limit);
    if (static_cast<double>(d.used) >= edge && static_cast<double>(d.used - c.cost) < edge)
      detail::tell(told.near, near_limit{d, c.identity, c.region});
  }

  // Only what a key is made of is checked: the rest is not stored.
  std::error_code invalid(const call& c) const {
    const scope by = shared_->options.by;
    const bool has_id = !c.request_id.empty();
    if (counts_identity(by) && c.identity.empty()) return errc::invalid_identity;
    if ((counts_identity(by) || has_id) && c.identity.size() > max_key_part) return errc::invalid_identity;
    if ((counts_region(by) || has_id) && c.region.size() > max_key_part) return errc::invalid_region;
    if (c.cost < 0) return errc::invalid_cost;
    if (c.limit && !detail::is_count(*c.limit)) return errc::invalid_limit;
    if (c.request_id.size() > max_key_part) return errc::invalid_request_id;
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
