// What the limiters did, as Prometheus text.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <ratelimit/decision.hpp>
#include <ratelimit/detail/fork_safe_mutex.hpp>
#include <ratelimit/metrics/exposition.hpp>
#include <ratelimit/metrics/series.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit {

constexpr std::string_view to_string(algorithm_id algorithm) noexcept {
  switch (algorithm) {
    case algorithm_id::sliding_log: return "sliding_log";
    case algorithm_id::compact_log: return "compact_log";
    case algorithm_id::sliding_counter: return "sliding_counter";
    case algorithm_id::token_bucket: return "token_bucket";
    case algorithm_id::fixed_window: return "fixed_window";
  }
  return "unknown";
}

constexpr std::string_view to_string(breaker_state state) noexcept {
  switch (state) {
    case breaker_state::closed: return "closed";
    case breaker_state::open: return "open";
    case breaker_state::half_open: return "half_open";
  }
  return "unknown";
}

// An observer that counts: `.observer = metrics` in a limiter's options and in the Redis store's. Copies share the
// counts, so one object serves the whole program and may be destroyed before the limiters. Thread-safe, and scraping
// makes no call wait. To hear of more, convert it and add: `ratelimit::observer both = metrics; both.near = ...;`
//
//   ratelimit_decisions_total{limit,algorithm,outcome,source,error}    calls of check. outcome: allowed, denied (over
//       the limit), would_deny (shadow), unavailable (fail::closed) or invalid. What the deny cache answered has source
//       deny_cache. A limit of an all_of counts its own part.
//   ratelimit_refunds_total{limit,algorithm,source,error}              calls of refund
//   ratelimit_check_duration_seconds{limit,algorithm,source}           a histogram from 50 us to 1 s
//   ratelimit_breaker_state{address,state}                             1 for the state the breaker is in, else 0
//   ratelimit_breaker_changes_total{address,state,error}               by the state it changed to
//
// peek, block and reset are not counted. A series appears with its first call, a breaker with its first change, and
// none is ever dropped. No identity and no region is in it: there are as many limits here as the program has names for
// its limiters, and as many addresses as its stores have asked. A program that makes up names as it runs bounds them
// itself; each takes about 64 kB.
class metrics {
 public:
  // What text() is, for the header of that name.
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  metrics() : state_{std::make_shared<state>()} {}

  operator observer() const {
    return {.decided =
                [kept = state_](const observation& o) { kept->limits.of(o.result.limit_name, o.algorithm).count(o); },
            .breaker = [kept = state_](const breaker_change& c) { kept->count(c); }};
  }

  // The counts so far. Calls that run meanwhile may be in one family and not yet in another.
  std::string text() const {
    detail::exposition out;
    write_limits(out);
    write_breakers(out);
    return out.take();
  }

 private:
  using labels = detail::exposition::labels;
  static constexpr std::size_t breaker_states = 3;

  struct breaker {
    breaker_state now = breaker_state::closed;
    std::array<std::array<std::uint64_t, detail::error_classes>, breaker_states> changes{};
  };

  struct state {
    void count(const breaker_change& c) {
      const std::lock_guard lock{mutex};
      breaker& known = breakers[detail::label_text(c.address)];
      known.now = c.state;
      ++known.changes[static_cast<std::size_t>(c.state)][detail::class_of(c.error)];
    }

    detail::series_table limits;
    mutable detail::fork_safe_mutex mutex{};
    std::map<std::string, breaker> breakers{};
  };

  // Two names that read the same once they are valid text share their lines: no line may come twice.
  using by_limit = std::map<std::pair<std::string, algorithm_id>, detail::limit_counts<std::uint64_t>>;

  // The outcome as a client sees it: its status code is 200, 200, 429, 503 or 400.
  static std::string_view outcome_label(detail::verdict as, source from) noexcept {
    if (as == detail::verdict::allowed) return "allowed";
    if (as == detail::verdict::would_deny) return "would_deny";
    if (from == source::invalid) return "invalid";
    return from == source::failed_closed ? "unavailable" : "denied";
  }

  void write_limits(detail::exposition& out) const {
    by_limit limits;
    state_->limits.each([&](const detail::series& s) { s.add_to(limits[{detail::label_text(s.name), s.algorithm}]); });

    out.family("ratelimit_decisions_total", "counter", "Calls of check, by their outcome and by who answered.");
    each_count(limits, [&](const auto& limit, detail::verdict as, source from, auto error, std::uint64_t calls) {
      if (as == detail::verdict::refund) return;
      out.sample("ratelimit_decisions_total",
                 {{"limit", limit.first},
                  {"algorithm", to_string(limit.second)},
                  {"outcome", outcome_label(as, from)},
                  {"source", to_string(from)},
                  {"error", error}},
                 calls);
    });

    out.family("ratelimit_refunds_total", "counter", "Calls of refund, by who answered.");
    each_count(limits, [&](const auto& limit, detail::verdict as, source from, auto error, std::uint64_t calls) {
      if (as != detail::verdict::refund) return;
      out.sample("ratelimit_refunds_total",
                 {{"limit", limit.first},
                  {"algorithm", to_string(limit.second)},
                  {"source", to_string(from)},
                  {"error", error}},
                 calls);
    });

    out.family("ratelimit_check_duration_seconds", "histogram", "How long calls of check took, by who answered.");
    for (const auto& [limit, counts] : limits)
      for (std::size_t from = 0; from < detail::sources; ++from)
        write_histogram(out, limit, static_cast<source>(from), counts.took[from],
                        std::chrono::nanoseconds{counts.nanoseconds[from]});
  }

  // Calls what(limit, verdict, source, error class, calls) for each number that is not 0.
  template <class F>
  static void each_count(const by_limit& limits, F what) {
    for (const auto& [limit, counts] : limits)
      for (std::size_t as = 0; as < detail::verdicts; ++as)
        for (std::size_t from = 0; from < detail::sources; ++from)
          for (std::size_t error = 0; error < detail::error_classes; ++error)
            if (const std::uint64_t calls = counts.calls[as][from][error])
              what(limit, static_cast<detail::verdict>(as), static_cast<source>(from), detail::class_label(error),
                   calls);
  }

  static void write_histogram(detail::exposition& out, const by_limit::key_type& limit, source from,
                              const std::array<std::uint64_t, detail::buckets.size() + 1>& took,
                              std::chrono::nanoseconds sum) {
    std::uint64_t count = 0;
    for (const std::uint64_t calls : took) count += calls;
    if (count == 0) return;
    std::uint64_t so_far = 0;
    for (std::size_t at = 0; at < took.size(); ++at) {
      so_far += took[at];
      out.sample("ratelimit_check_duration_seconds_bucket",
                 {{"limit", limit.first},
                  {"algorithm", to_string(limit.second)},
                  {"source", to_string(from)},
                  {"le", at < detail::buckets.size() ? detail::buckets[at].label : "+Inf"}},
                 so_far);
    }
    const labels of{{"limit", limit.first}, {"algorithm", to_string(limit.second)}, {"source", to_string(from)}};
    out.sample("ratelimit_check_duration_seconds_sum", of, sum);
    out.sample("ratelimit_check_duration_seconds_count", of, count);
  }

  void write_breakers(detail::exposition& out) const {
    const std::lock_guard lock{state_->mutex};
    out.family("ratelimit_breaker_state", "gauge", "Whether the circuit breaker of a server is in a state: 1 or 0.");
    for (const auto& [address, known] : state_->breakers)
      for (std::size_t at = 0; at < breaker_states; ++at) {
        const auto one = static_cast<breaker_state>(at);
        out.sample("ratelimit_breaker_state", {{"address", address}, {"state", to_string(one)}},
                   std::uint64_t{one == known.now});
      }

    out.family("ratelimit_breaker_changes_total", "counter", "Changes of a circuit breaker, by the state it came to.");
    for (const auto& [address, known] : state_->breakers)
      for (std::size_t at = 0; at < breaker_states; ++at)
        for (std::size_t error = 0; error < detail::error_classes; ++error)
          if (const std::uint64_t changes = known.changes[at][error])
            out.sample("ratelimit_breaker_changes_total",
                       {{"address", address},
                        {"state", to_string(static_cast<breaker_state>(at))},
                        {"error", detail::class_label(error)}},
                       changes);
  }

  std::shared_ptr<state> state_;
};

}  // namespace ratelimit
