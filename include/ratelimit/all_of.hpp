// Several limits, one verdict: a call passes when every limit lets it, and a refusal by one leaves no trace in the
// others.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
#include <ratelimit/detail/integer.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/limiter.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

// The verdict of several limits: the binding limit's decision (denied: that of the longest wait, a wait without end
// before all; allowed: that of the smallest remaining share), and each limit's own, as after the call, in the order
// given. A part of a denied call may be allowed: its limit had room, and has not counted.
template <std::size_t Count>
struct joint_decision : decision {
  std::array<decision, Count> parts{};
};

// A combination of limiters, of any algorithms and scopes, over one store. Copies the limiters (cheaply); the store
// must outlive it. Thread-safe.
//
// One round trip and one step: in Redis one script. Only where a cluster keeps the limits' keys in different slots
// (limits whose scopes differ in more than the region) they are asked one after the other, and a refusal gives back
// what the earlier ones took: then another call may for a moment see those units as taken.
//
// The deadline is the shortest of the limits'. When the store cannot be asked, one limit with fail::closed refuses the
// call; otherwise limits with fail::local count in this process and those with fail::open let it pass. The limits' deny
// caches are not asked. A call that names its own limit is invalid: it would not say which.
template <class... Limits>
class all_of {
  static constexpr std::size_t count = sizeof...(Limits);
  static_assert(count > 0, "all_of needs a limiter");

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

  // Forgets the keys of every limit; the first error, when there was one.
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    std::error_code first;
    each([&](auto, const auto& limit) {
      if (const std::error_code error = limit.reset(identity, region); error && !first) first = error;
    });
    return first;
  }

  // One pipeline for a batch: a verdict for each call, in order, each decided on its own.
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
      const questions q = put_all(operation::take, calls[i], own, ids.emplace_back(ids_for(calls[i], own)));
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

  decision_type answer(operation op, const call& c) const {
    const auto started = deadline::clock::now();
    decision_type verdict = decide(op, c, deadline{started + shortest_deadline()});
    if (op != operation::peek) report(verdict, op, c, started);
    return verdict;
  }

  decision_type decide(operation op, const call& c, const deadline& until) const {
    if (const std::error_code bad = invalid(c)) return uncounted(c, source::invalid, bad);
    const auto keys = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<detail::key, count>{std::get<I>(limits_).key_for(c)...};
    }
    (std::make_index_sequence<count>{});
    std::array<std::string_view, count> views;
    std::transform(keys.begin(), keys.end(), views.begin(), [](const detail::key& k) { return k.view(); });
    const auto ids = ids_for(c, views);
    const questions put = put_all(op, c, views, ids);
    std::array<request, count> what;
    std::transform(put.begin(), put.end(), what.begin(), [](const detail::question& q) { return q.what; });
    std::array<outcome, count> seen;
    ask(what, seen, until);
    return settle(op, c, put, seen, until);
  }

  template <class Keys>
  std::array<std::string, count> ids_for(const call& c, const Keys& keys) const {
    std::array<std::string, count> ids;
    each([&](auto n, const auto& limit) { ids[n] = limit.id_for(c, keys[n]); });
    return ids;
  }

  // The call as it is put to the store, once for each limit. A cost that one limit can never admit is not counted by
  // the others either.
  template <class Keys>
  questions put_all(operation op, const call& c, const Keys& keys, const std::array<std::string, count>& ids) const {
    questions put{};
    bool never = false;
    each([&](auto n, const auto& limit) {
      put[n] = limit.put(op, c.cost, limit.numbers_for(c), keys[n], ids[n]);
      never = never || (put[n].never && put[n].what.binding);
    });
    for (detail::question& q : put) {
      q.what.now = put.front().what.now;
      if (never) q.what.op = operation::peek;
    }
    return put;
  }

  // `what` holds `count` requests for each call.
  void ask(std::span<const request> what, std::span<outcome> seen, const deadline& until) const {
    auto& store = *std::get<0>(limits_).store_;
    if (what.empty()) return;
    if (store.can_join(what.first(count))) {
      store.run_many(what, count, seen, until);
      return;
    }
    for (std::size_t i = 0; i < what.size(); i += count)
      one_by_one(what.subspan(i, count), seen.subspan(i, count),
                 [&](std::size_t, const request& r) { return store.run(r, until); });
  }

  // All or nothing without a common step: what was taken before a refusal, or before an error, is given back.
  template <class Run>
  static void one_by_one(std::span<const request> what, std::span<outcome> seen, Run run) {
    bool go = true;
    std::error_code error;
    for (std::size_t i = 0; i < what.size() && !error; ++i) {
      request r = what[i];
      if (!go && r.op == operation::take) r.op = operation::peek;
      seen[i] = run(i, r);
      error = seen[i].error;
      const bool refused = r.op == operation::take && !error && !seen[i].allowed && r.binding;
      if (!(error || refused) || !go) continue;
      go = false;
      for (std::size_t j = 0; j < i; ++j) {
        if (what[j].op != operation::take || !seen[j].allowed) continue;
        request back = what[j];
        back.op = operation::refund;
        seen[j] = run(j, back);
        seen[j].allowed = true;
      }
    }
    if (error)
      for (outcome& o : seen) o.error = error;
  }

  decision_type settle(operation op, const call& c, const questions& put, std::span<const outcome> seen,
                       const deadline& until) const {
    const auto failed = std::find_if(seen.begin(), seen.end(), [](const outcome& o) { return bool{o.error}; });
    if (failed != seen.end()) return without_store(op, c, put, failed->error, until);
    decision_type d;
    each([&](auto n, const auto& limit) {
      if (limit.shared_->local) limit.shared_->local->end();
      d.parts[n] = limit.conclude(put[n], seen[n], std::remove_cvref_t<decltype(*limit.store_)>::origin);
    });
    return verdict(d);
  }

  decision_type without_store(operation op, const call& c, const questions& put, std::error_code why,
                              const deadline& until) const {
    if (any_closed()) return uncounted(c, source::failed_closed, why);
    // Limits with fail::open neither count nor refuse here.
    questions local = put;
    std::array<request, count> what;
    std::array<outcome, count> seen;
    each([&](auto n, const auto& limit) {
      if (limit.shared_->local)
        local[n] = limit.put(op, c.cost, limit.shared_->local->share_of(put[n].what.numbers), put[n].what.key,
                             put[n].what.once);
      what[n] = local[n].what;
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
                                        : limit.uncounted(put[n].what.numbers, source::failed_open, why);
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
    static_cast<decision&>(d) = *std::min_element(d.parts.begin(), d.parts.end(), binds_before);
    d.would_deny = std::any_of(d.parts.begin(), d.parts.end(), [](const decision& part) { return part.would_deny; });
    return d;
  }

  void report(const decision_type& d, operation op, const call& c, deadline::clock::time_point started) const {
    each([&](auto n, const auto& limit) { limit.report(d.parts[n], op, c, started); });
  }

  std::error_code invalid(const call& c) const {
    if (c.limit) return errc::invalid_limit;
    std::error_code first;
    each([&](auto, const auto& limit) {
      if (const std::error_code bad = limit.invalid(c); bad && !first) first = bad;
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
    each([&](auto, const auto& limit) { closed = closed || limit.shared_->options.on_failure == fail::closed; });
    return closed;
  }

  std::tuple<Limits...> limits_;
};

}  // namespace ratelimit
