// The numbers behind the metrics of one limit, and how an observation finds them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ratelimit/decision.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// The label of an error class: the enumerator's name.
constexpr std::string_view error_label(errc error) noexcept {
  switch (error) {
    case errc::timeout: return "timeout";
    case errc::refused: return "refused";
    case errc::closed: return "closed";
    case errc::protocol: return "protocol";
    case errc::permission: return "permission";
    case errc::out_of_memory: return "out_of_memory";
    case errc::read_only: return "read_only";
    case errc::loading: return "loading";
    case errc::busy: return "busy";
    case errc::cluster: return "cluster";
    case errc::script: return "script";
    case errc::too_many_clients: return "too_many_clients";
    case errc::unsupported_server: return "unsupported_server";
    case errc::tls: return "tls";
    case errc::database: return "database";
    case errc::invalid_identity: return "invalid_identity";
    case errc::invalid_region: return "invalid_region";
    case errc::invalid_cost: return "invalid_cost";
    case errc::invalid_limit: return "invalid_limit";
    case errc::invalid_request_id: return "invalid_request_id";
    case errc::invalid_duration: return "invalid_duration";
  }
  return "other";
}

// Error classes: 0 is no error, 1 to 30 are errc's values, 31 is what a store of the user's own calls by another name.
inline constexpr std::size_t error_classes = 32;

inline std::size_t class_of(const std::error_code& error) noexcept {
  if (!error) return 0;
  const bool ours = error.category() == ratelimit::error_category() && error.value() > 0;
  return ours ? std::min(static_cast<std::size_t>(error.value()), error_classes - 1) : error_classes - 1;
}

constexpr std::string_view class_label(std::size_t error_class) noexcept {
  return error_class == 0 ? "none" : error_label(static_cast<errc>(error_class));
}

// What an observation is counted as.
enum class verdict : std::uint8_t { allowed, denied, would_deny, refund };
inline constexpr std::size_t verdicts = 4;
inline constexpr std::size_t sources = static_cast<std::size_t>(source::invalid) + 1;

// The upper ends of the histogram's buckets, and how they are written. The last bucket has none.
struct bucket {
  std::chrono::microseconds up_to;
  std::string_view label;  // in seconds
};
inline constexpr std::array<bucket, 14> buckets{{{std::chrono::microseconds{50}, "0.00005"},
                                                 {std::chrono::microseconds{100}, "0.0001"},
                                                 {std::chrono::microseconds{250}, "0.00025"},
                                                 {std::chrono::microseconds{500}, "0.0005"},
                                                 {std::chrono::microseconds{1'000}, "0.001"},
                                                 {std::chrono::microseconds{2'500}, "0.0025"},
                                                 {std::chrono::microseconds{5'000}, "0.005"},
                                                 {std::chrono::microseconds{10'000}, "0.01"},
                                                 {std::chrono::microseconds{25'000}, "0.025"},
                                                 {std::chrono::microseconds{50'000}, "0.05"},
                                                 {std::chrono::microseconds{100'000}, "0.1"},
                                                 {std::chrono::microseconds{250'000}, "0.25"},
                                                 {std::chrono::microseconds{500'000}, "0.5"},
                                                 {std::chrono::microseconds{1'000'000}, "1"}}};

inline std::size_t bucket_of(std::chrono::nanoseconds took) noexcept {
  std::size_t at = 0;
  while (at < buckets.size() && took > buckets[at].up_to) ++at;
  return at;
}

template <class Number>
struct limit_counts {
  std::array<std::array<std::array<Number, error_classes>, sources>, verdicts> calls{};
  // Of checks only; the buckets do not include those below them.
  std::array<std::array<Number, buckets.size() + 1>, sources> took{};
  std::array<Number, sources> nanoseconds{};
};

// The counts of one limit. Threads count in different parts, so that they do not wait for each other's cache lines.
class series {
 public:
  series(std::string_view limit, algorithm_id counted_by) : name{limit}, algorithm{counted_by} {}

  void count(const observation& o) noexcept {
    const decision& d = o.result;
    const auto from = static_cast<std::size_t>(d.from);
    limit_counts<std::atomic<std::uint64_t>>& own = parts_[part_of_this_thread()].counts;
    const verdict as = o.op == operation::refund ? verdict::refund
                       : d.would_deny            ? verdict::would_deny
                       : d.allowed               ? verdict::allowed
                                                 : verdict::denied;
    constexpr auto relaxed = std::memory_order_relaxed;
    own.calls[static_cast<std::size_t>(as)][from][class_of(d.error)].fetch_add(1, relaxed);
    if (as == verdict::refund) return;
    own.took[from][bucket_of(o.took)].fetch_add(1, relaxed);
    own.nanoseconds[from].fetch_add(static_cast<std::uint64_t>(o.took.count()), relaxed);
  }

  void add_to(limit_counts<std::uint64_t>& sum) const noexcept {
    const auto read = [](const std::atomic<std::uint64_t>& n) { return n.load(std::memory_order_relaxed); };
    for (const part& p : parts_) {
      for (std::size_t from = 0; from < sources; ++from) {
        for (std::size_t as = 0; as < verdicts; ++as)
          for (std::size_t error = 0; error < error_classes; ++error)
            sum.calls[as][from][error] += read(p.counts.calls[as][from][error]);
        for (std::size_t at = 0; at <= buckets.size(); ++at) sum.took[from][at] += read(p.counts.took[from][at]);
        sum.nanoseconds[from] += read(p.counts.nanoseconds[from]);
      }
    }
  }

  const std::string name;
  const algorithm_id algorithm;
  series* next = nullptr;  // in the table

 private:
  static constexpr std::size_t parts = 8;
  struct alignas(64) part {
    limit_counts<std::atomic<std::uint64_t>> counts;
  };

  static std::size_t part_of_this_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % parts;
    return mine;
  }

  std::array<part, parts> parts_;
};

// The series of all limits. They are only ever added, so that finding one takes no lock.
class series_table {
 public:
  series_table() = default;
  series_table(const series_table&) = delete;
  series_table& operator=(const series_table&) = delete;
  ~series_table() {
    for (std::atomic<series*>& row : rows_)
      for (series* one = row; one != nullptr;) delete std::exchange(one, one->next);
  }

  // Allocates for a limit it has not seen.
  series& of(std::string_view limit, algorithm_id algorithm) {
    std::atomic<series*>& row =
        rows_[(std::hash<std::string_view>{}(limit) + static_cast<std::size_t>(algorithm)) % rows_.size()];
    series* first = row.load(std::memory_order_acquire);
    if (series* const known = find(first, nullptr, limit, algorithm)) return *known;
    auto made = std::make_unique<series>(limit, algorithm);
    for (;;) {
      made->next = first;
      if (row.compare_exchange_weak(first, made.get(), std::memory_order_acq_rel, std::memory_order_acquire))
        return *made.release();
      if (series* const known = find(first, made->next, limit, algorithm)) return *known;
    }
  }

  template <class F>
  void each(F what) const {
    for (const std::atomic<series*>& row : rows_)
      for (const series* one = row.load(std::memory_order_acquire); one != nullptr; one = one->next) what(*one);
  }

 private:
  static series* find(series* from, const series* end, std::string_view limit, algorithm_id algorithm) noexcept {
    for (; from != end; from = from->next)
      if (from->algorithm == algorithm && from->name == limit) return from;
    return nullptr;
  }

  std::array<std::atomic<series*>, 256> rows_{};
};

}  // namespace ratelimit::detail
