// Several limits, one verdict: a call passes when every limit lets it, and a refusal by one leaves no trace in the
// others.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ratelimit/call.hpp>
#include <ratelimit/decision.hpp>
#include <ratelimit/detail/fnv1a.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/limiter.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// The verdict of several limits: the binding limit's decision (binds_before: denied, that of the longest wait, one that
// no waiting ends before all; allowed, that of the smallest remaining share; of equal ones the first), and each limit's
// own, as after the call, in the order given. A part of a denied call may be allowed: its limit had room, and has not
// counted. would_deny is set when a shadow limit would have refused.
template <std::size_t Count>
struct joint_decision : decision {
  std::array<decision, Count> parts{};
};

// A combination of limiters, of any algorithms and scopes, over one store. Copies the limiters (cheaply); the store
// must outlive it. Thread-safe.
//
// One round trip and one step: in Redis one script. Only where a cluster keeps the limits' keys in different slots
// (limits whose scopes differ in more than the region) they are asked one after the other, and a refusal gives back
// what the earlier ones took, and nothing that a later window took. That is not atomic: another call may for a moment
// see those units as taken, and they stay taken where the store cannot be asked to give them back before the deadline.
//
// The deadline is the shortest of the limits', the clock the first one's. When the store cannot be asked, one limit
// with fail::closed refuses the call; otherwise limits with fail::local count in this process and those with fail::open
// let it pass. The limits' deny caches are not asked. A call that names its own limit is invalid: it would not say
// which. A call's id is remembered for the first limit's window, and by this combination alone: one of its limits by
// itself, or another combination, counts a call of the same id as a new one.
template <class... Limits>
class all_of {
  static constexpr std::size_t count = sizeof...(Limits);
  static_assert(count > 0, "all_of needs a limiter");
  static_assert((batch_store<typename Limits::store_type> && ...), "all_of needs a store that takes several requests");

 public:
  using decision_type = joint_decision<count>;

  // Throws std::invalid_argument when the limits stand on different stores, or two of them share their keys.
  explicit all_of(const Limits&... limits) : limits_{limits...} {
    const std::array<const void*, count> stores{limits.store_...};
    const std::array<std::pair<std::string_view, scope>, count> keys{
        std::pair<std::string_view, scope>{limits.shared_->key_head, limits.shared_->options.by}...};
    for (std::size_t i = 0; i < count; ++i) {
      if (stores[i] != stores[0])
        detail::refuse("all_of", keys[i].first, "stands on another store than the first limit");
      for (std::size_t j = 0; j < i; ++j)
        if (keys[i] == keys[j]) detail::refuse("all_of", keys[i].first, "is given twice: two limits need two names");
    }
    for (const auto& [head, by] : keys)
      name_ = detail::fnv1a(std::to_string(static_cast<int>(by)), detail::fnv1a(head, name_));
  }

  // As limiter's members of these names; `cost` is taken from every limit.
  decision_type check(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return check(call{identity, region, cost});
  }
  decision_type check(const call& c) const { return answer(operation::take, c); }
  decision_type peek(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return peek(call{identity, region, cost});
  }
  decision_type peek(const call& c) const { return answer(operation::peek, c); }
  decision_type refund(std::string_view identity, std::string_view region, std::int64_t cost) const {
    return answer(operation::refund, call{identity, region, cost});
  }
  decision_type refund(std::string_view identity, std::string_view region, std::int64_t cost, time_point taken) const {
    return answer(operation::refund, call{identity, region, cost}, taken.time_since_epoch().count());
  }

  // Forgets the keys of every limit, in one pipeline; the first error, when there was one.
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    const call c{identity, region};
    if (const std::error_code bad = invalid(c)) return bad;
    const auto keys = keys_for(c);
    std::array<request, count> what;
    each([&](auto n, const auto& limit) {
      what[n] = {limit.shared_->options.algorithm,
                 operation::reset,
                 keys[n].view(),
                 limit.shared_->options.numbers,
                 1,
                 limit.clock_time()};
    });
    std::array<outcome, count> seen;
    std::get<0>(limits_).store_->run_many(what, 1, seen, deadline{shortest_deadline()});
    each([&](auto n, const auto& limit) {
      limit.forget_denial(keys[n].view());
      if (!seen[n].error) limit.end_outage(what[n]);
    });
    const auto failed = std::find_if(seen.begin(), seen.end(), [](const outcome& o) { return bool{o.error}; });
    return failed == seen.end() ? std::error_code{} : failed->error;
  }

  // A verdict for each call, in order, each decided on its own, and all of them by one deadline, which does not bound
  // the work on the batch itself, some microseconds for each limit of a call. One pipeline, but for the calls whose
  // limits are asked one after the other.
  std::vector<decision_type> check_many(std::span<const call> calls) const {
    const auto started = deadline::clock::now();
    const deadline until{started + shortest_deadline()};
    std::vector<decision_type> verdicts(calls.size());
    std::vector<std::size_t> asked;
    std::vector<std::array<std::string, count>> keys;
    std::vector<std::array<std::string, count>> ids;
    std::vector<questions> put;
    std::vector<request> what;
    keys.reserve(calls.size());
    ids.reserve(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (const std::error_code bad = invalid(calls[i])) {
        verdicts[i] = uncounted(calls[i], source::invalid, bad);
        continue;
      }
      auto& own = keys.emplace_back();
      each([&](auto n, const auto& limit) { own[n] = limit.key_for(calls[i]).view(); });
      const questions q = put_all(operation::take, calls[i], {}, own, ids.emplace_back(ids_for(calls[i], own)));
      for (const detail::question& part : q) what.push_back(part.what);
      put.push_back(q);
      asked.push_back(i);
    }
    std::vector<outcome> seen(what.size());
    ask(what, seen, until);
    for (std::size_t n = 0; n < asked.size(); ++n)
      verdicts[asked[n]] =
          settle(operation::take, calls[asked[n]], put[n], std::span{seen}.subspan(n * count, count), until);
    for (std::size_t i = 0; i < calls.size(); ++i) report(verdicts[i], operation::take, calls[i], started);
    return verdicts;
  }

 private:
  using questions = std::array<detail::question, count>;

  // Calls what(index, limit) for each limit; the index is a constant.
  template <class F>
  void each(F what) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (what(std::integral_constant<std::size_t, I>{}, std::get<I>(limits_)), ...);
    }
    (std::make_index_sequence<count>{});
  }

  decision_type answer(operation op, const call& c, std::optional<std::int64_t> taken = {}) const {
    const auto started = deadline::clock::now();
    decision_type verdict = decide(op, c, taken, deadline{started + shortest_deadline()});
    if (op != operation::peek) report(verdict, op, c, started);
    return verdict;
  }

  std::array<detail::key, count> keys_for(const call& c) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<detail::key, count>{std::get<I>(limits_).key_for(c)...};
    }
    (std::make_index_sequence<count>{});
  }

  decision_type decide(operation op, const call& c, std::optional<std::int64_t> taken, const deadline& until) const {
    if (const std::error_code bad = invalid(c)) return uncounted(c, source::invalid, bad);
    const auto keys = keys_for(c);
    std::array<std::string_view, count> views;
    std::transform(keys.begin(), keys.end(), views.begin(), [](const detail::key& k) { return k.view(); });
    const auto ids = ids_for(c, views);
    const questions put = put_all(op, c, taken, views, ids);
    std::array<request, count> what;
    std::transform(put.begin(), put.end(), what.begin(), [](const detail::question& q) { return q.what; });
    std::array<outcome, count> seen;
    ask(what, seen, until);
    return settle(op, c, put, seen, until);
  }

  template <class Keys>
  std::array<std::string, count> ids_for(const call& c, const Keys& keys) const {
    std::array<std::string, count> ids;
    if (c.request_id.empty()) return ids;
    const std::string name = ":" + std::to_string(name_);
    each([&](auto n, const auto& limit) { ids[n] = limit.id_for(c, keys[n]) + name; });
    return ids;
  }

  // The call as it is put to the store, once for each limit. A cost that one limit can never admit is not counted by
  // the others either.
  template <class Keys>
  questions put_all(operation op, const call& c, std::optional<std::int64_t> taken, const Keys& keys,
                    const std::array<std::string, count>& ids) const {
    questions put{};
    bool never = false;
    each([&](auto n, const auto& limit) {
      put[n] = limit.put(op, c.cost, limit.numbers_for(c), keys[n], ids[n]);
      never = never || (put[n].never && put[n].what.binding);
    });
    for (detail::question& q : put) {
      q.what.now = put.front().what.now;
      q.what.taken = taken;
      q.what.once_for = put.front().what.once_for;
      if (never) q.what.op = operation::peek;
    }
    return put;
  }

  // `what` holds `count` requests for each call.
  void ask(std::span<const request> what, std::span<outcome> seen, const deadline& until) const {
    auto& store = *std::get<0>(limits_).store_;
    bool join = true;
    for (std::size_t i = 0; i < what.size(); i += count) join = join && store.can_join(what.subspan(i, count));
    if (join) {
      if (!what.empty()) store.run_many(what, count, seen, until);
      return;
    }
    for (std::size_t i = 0; i < what.size(); i += count) {
      const auto group = what.subspan(i, count);
      if (store.can_join(group)) {
        store.run_many(group, count, seen.subspan(i, count), until);
      } else {
        one_by_one(group, seen.subspan(i, count), [&](std::size_t, const request& r) { return store.run(r, until); });
      }
    }
  }

  // All or nothing without a common step. Either every outcome has the error, and nothing is taken for certain but what
  // could not be given back; or none has, but that of limits that could not be asked how they stand after a refusal.
  template <class Run>
  static void one_by_one(std::span<const request> what, std::span<outcome> seen, Run run) {
    std::size_t refusing = what.size();
    for (std::size_t i = 0; i < what.size(); ++i) {
      request r = what[i];
      // A repeated call is refused by a block alone. Only a take knows that the limits after it have counted it, too.
      const bool is_refused = refusing < i;
      if (is_refused && !seen[refusing].repeated && r.op == operation::take) r.op = operation::peek;
      seen[i] = run(i, r);
      const bool refuses = r.op == operation::take && r.binding && !seen[i].allowed;
      if (is_refused || !(seen[i].error || refuses)) continue;
      refusing = i;
      give_back(what.first(i), seen, run);
      if (!seen[i].error) continue;
      std::fill(seen.begin(), seen.end(), outcome{.error = seen[i].error});
      return;
    }
    if (refusing < what.size() && seen[refusing].repeated)
      give_back(what.subspan(refusing + 1), seen.subspan(refusing + 1),
                [&](std::size_t i, const request& r) { return run(refusing + 1 + i, r); });
  }

  // What was taken is given back to the window that took it, and the call's id forgotten. What cannot be given back
  // stays as it was counted.
  template <class Run>
  static void give_back(std::span<const request> what, std::span<outcome> seen, Run run) {
    for (std::size_t i = 0; i < what.size(); ++i) {
      if (what[i].op != operation::take || !seen[i].allowed || seen[i].repeated) continue;
      request back = what[i];
      back.op = operation::refund;
      back.taken = seen[i].now;
      outcome given = run(i, back);
      if (given.error) continue;
      given.allowed = true;
      seen[i] = given;
    }
  }

  decision_type settle(operation op, const call& c, const questions& put, std::span<const outcome> seen,
                       const deadline& until) const {
    if (seen.front().error) return without_store(op, c, put, seen.front().error, until);
    bool passed = true;
    for (std::size_t i = 0; i < count; ++i) passed = passed && (seen[i].allowed || !put[i].what.binding);
    decision_type d;
    each([&](auto n, const auto& limit) {
      if (op == operation::refund) limit.forget_denial(put[n].what.key);
      if (seen[n].error) {
        d.parts[n] = limit.uncounted(put[n].what.numbers, limit.source_of_failure(), seen[n].error);
        return;
      }
      if (put[n].what.op == operation::take && passed && seen[n].allowed && !seen[n].repeated)
        limit.end_outage(put[n].what);
      d.parts[n] = limit.conclude(put[n], seen[n], std::remove_cvref_t<decltype(*limit.store_)>::origin);
    });
    return verdict(d);
  }

  decision_type without_store(operation op, const call& c, const questions& put, std::error_code why,
                              const deadline& until) const {
    if (any_closed()) return uncounted(c, source::failed_closed, why);
    // Limits with fail::open, and those in shadow, neither count nor refuse here.
    questions local = put;
    std::array<request, count> what;
    std::array<outcome, count> seen;
    each([&](auto n, const auto& limit) {
      if (limit.shared_->local)
        local[n] = limit.put(op, c.cost, limit.shared_->local->share_of(put[n].what.numbers), put[n].what.key,
                             put[n].what.once);
      what[n] = local[n].what;
      what[n].now = put[n].what.now;
      what[n].taken = put[n].what.taken;
    });
    const bool never =
        std::any_of(local.begin(), local.end(), [](const detail::question& q) { return q.never && q.what.binding; });
    if (never)
      for (request& r : what) r.op = operation::peek;
    one_by_one(what, seen, [&](std::size_t i, const request& r) {
      outcome counted{.allowed = true};
      each([&](auto n, const auto& limit) {
        if (n == i && limit.shared_->local) counted = limit.shared_->local->run(r, until);
      });
      return counted;
    });
    decision_type d;
    each([&](auto n, const auto& limit) {
      d.parts[n] = limit.shared_->local ? limit.conclude(local[n], seen[n], source::local)
                                        : limit.uncounted(put[n].what.numbers, limit.source_of_failure(), why);
      d.parts[n].error = why;
    });
    return verdict(d);
  }

  decision_type uncounted(const call& c, source from, std::error_code why) const {
    decision_type d;
    each([&](auto n, const auto& limit) { d.parts[n] = limit.uncounted(limit.numbers_for(c), from, why); });
    return verdict(d);
  }

  // The parts as they are enforced, and the one that binds.
  decision_type verdict(decision_type d) const {
    each([&](auto n, const auto& limit) { d.parts[n] = limit.enforce(d.parts[n]); });
    // A limit in shadow binds nobody, unless all are.
    std::array<bool, count> shadow{};
    each([&](auto n, const auto& limit) { shadow[n] = limit.shared_->options.shadow; });
    std::size_t binding = 0;
    for (std::size_t i = 1; i < count; ++i)
      if (shadow[binding] != shadow[i] ? shadow[binding] : binds_before(d.parts[i], d.parts[binding])) binding = i;
    static_cast<decision&>(d) = d.parts[binding];
    d.would_deny = std::any_of(d.parts.begin(), d.parts.end(), [](const decision& part) { return part.would_deny; });
    return d;
  }

  void report(const decision_type& d, operation op, const call& c, deadline::clock::time_point started) const {
    each([&](auto n, const auto& limit) { limit.report(d.parts[n], op, c, started, d.allowed); });
  }

  std::error_code invalid(const call& c) const {
    if (c.limit) return errc::invalid_limit;
    std::error_code first;
    each([&](auto, const auto& limit) {
      if (!first) first = limit.invalid(c);
    });
    return first;
  }

  std::chrono::microseconds shortest_deadline() const {
    auto shortest = std::chrono::microseconds::max();
    each([&](auto, const auto& limit) { shortest = std::min(shortest, limit.shared_->options.deadline); });
    return shortest;
  }

  bool any_closed() const {
    bool closed = false;
    each([&](auto, const auto& limit) { closed = closed || limit.refuses_when_ill(); });
    return closed;
  }

  std::tuple<Limits...> limits_;
  std::uint64_t name_ = detail::fnv1a({});  // what stands for this combination in the key of a call's id
};

}  // namespace ratelimit
