// Takes a sequence through a store, and compares every field of every decision with what is expected.
#pragma once

#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "algorithms.hpp"
#include "sequence.hpp"

namespace property {

// A decision as text, field by field: what is compared, and what is printed when it differs.
inline std::string text_of(const ratelimit::decision& d) {
  std::ostringstream text;
  text << "allowed " << d.allowed << bool{d} << ", from " << to_string(d.from) << ", error " << d.error.message()
       << " (" << d.error << "), limit_name " << d.limit_name << ", limit " << d.limit << ", used " << d.used
       << ", remaining " << d.remaining << ", retry_after "
       << (d.retry_after ? std::to_string(d.retry_after->count()) : "none") << ", reset_after " << d.reset_after.count()
       << ", full_after " << d.full_after.count() << ", at " << d.at.time_since_epoch().count() << ", would_deny "
       << d.would_deny << ", window " << d.window.count() << ", counted " << d.counted();
  return text.str();
}

inline bool same(const ratelimit::decision& a, const ratelimit::decision& b) {
  return a.allowed == b.allowed && a.from == b.from && a.error == b.error && a.limit_name == b.limit_name &&
         a.limit == b.limit && a.used == b.used && a.remaining == b.remaining && a.retry_after == b.retry_after &&
         a.reset_after == b.reset_after && a.full_after == b.full_after && a.at == b.at &&
         a.would_deny == b.would_deny && a.window == b.window;
}

// The time `limit` units are meant for.
template <class Pair>
std::chrono::microseconds span(const reference::numbers& n) {
  if constexpr (std::is_same_v<Pair, bucket_pair>) {
    const auto fills = (reference::wide{n.limit} * n.window + n.refill - 1) / n.refill;
    return std::chrono::microseconds{static_cast<count>(std::min<reference::wide>(fills, most))};
  } else {
    return std::chrono::microseconds{n.window};
  }
}

// The decision the reference asks for, or nothing for a reset.
template <class Pair>
std::optional<ratelimit::decision> expected(typename Pair::model& model, const call& c, ratelimit::source from) {
  using std::chrono::microseconds;
  ratelimit::decision d{.limit_name = limit_name,
                        .limit = c.numbers.limit,
                        .at = ratelimit::time_point{microseconds{c.now}},
                        .window = span<Pair>(c.numbers)};
  const reference::answer a = answer_to(model, c);
  switch (c.what) {
    case act::reset: return std::nullopt;
    case act::negative: d.error = ratelimit::errc::invalid_cost; return d;
    case act::nameless: d.error = ratelimit::errc::invalid_identity; return d;
    case act::check:
    case act::peek:
    case act::refund: break;
  }
  d.allowed = a.allowed;
  d.from = from;
  d.used = a.used;
  d.remaining = a.remaining;
  if (a.retry) d.retry_after = microseconds{*a.retry};
  d.reset_after = microseconds{a.reset};
  d.full_after = microseconds{a.full};
  return d;
}

// One identity of one store, and the limiter of the last options: changed options are another limiter of the same name.
template <class Pair, class Store>
class subject {
 public:
  subject(Store& where, std::string identity) : where_{&where}, identity_{std::move(identity)} {}

  // Nothing for a reset that was done.
  std::optional<ratelimit::decision> run(const call& c) {
    use(c);
    switch (c.what) {
      case act::check: return limiter_->check(identity_, {}, c.cost);
      case act::peek: return limiter_->peek(identity_, {}, c.cost);
      case act::refund: return limiter_->refund(identity_, {}, c.cost);
      case act::reset: {
        const std::error_code error = limiter_->reset(identity_);
        if (!error) return std::nullopt;
        return ratelimit::decision{.error = error};
      }
      case act::negative: return limiter_->check(identity_, {}, -c.cost);
      case act::nameless: return limiter_->check({}, {}, c.cost);
    }
    return std::nullopt;
  }

 private:
  using limiter = decltype(make_limiter<Pair>(std::declval<Store&>(), {}, ratelimit::manual_clock{}));

  void use(const call& c) {
    clock_.set(ratelimit::time_point{std::chrono::microseconds{c.now}});
    const reference::numbers& n = c.numbers;
    if (limiter_ && n.limit == numbers_.limit && n.window == numbers_.window && n.refill == numbers_.refill) return;
    numbers_ = n;
    limiter_.emplace(make_limiter<Pair>(*where_, n, clock_));
  }

  Store* where_;
  std::string identity_;
  ratelimit::manual_clock clock_;
  reference::numbers numbers_{};
  std::optional<limiter> limiter_{};
};

inline std::string text_of(const std::optional<ratelimit::decision>& d) {
  return d ? text_of(*d) : "done";
}

inline bool same(const std::optional<ratelimit::decision>& a, const std::optional<ratelimit::decision>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}

// Nothing, or how the first call differs that `wanted` and `got` answer differently.
template <class Wanted, class Got>
std::optional<std::string> difference(const std::vector<call>& calls, Wanted wanted, Got got) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto a = wanted(calls[i]);
    const auto b = got(calls[i]);
    if (!same(a, b)) return "call " + std::to_string(i) + "\n  expected " + text_of(a) + "\n  got      " + text_of(b);
  }
  return std::nullopt;
}

// Leaves out calls one by one, as long as what is left still fails.
template <class Fails>
std::vector<call> shortened(std::vector<call> calls, const Fails& fails) {
  for (std::size_t i = calls.size(); i-- > 0;) {
    std::vector<call> fewer = calls;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fails(fewer)) calls = std::move(fewer);
  }
  return calls;
}

inline std::string text_of(const std::vector<call>& calls) {
  std::string text;
  for (std::size_t i = 0; i < calls.size(); ++i) text += "  " + std::to_string(i) + " " + text_of(calls[i]) + ",\n";
  return text;
}

// `try_on` runs a sequence on a fresh key and answers as `difference` does. The report of a failure, or nothing.
template <class TryOn>
std::string report(std::string_view algorithm, count sequence, const std::vector<call>& calls, const TryOn& try_on) {
  const std::optional<std::string> first = try_on(calls);
  if (!first) return {};
  const std::vector<call> core = shortened(calls, [&](const auto& fewer) { return try_on(fewer).has_value(); });
  std::ostringstream text;
  text << algorithm << ", sequence " << sequence << ", seed " << seed_of(sequence) << ": " << *first << "\n"
       << text_of(calls) << "shortened: " << try_on(core).value_or("does not fail again") << "\n"
       << text_of(core);
  return text.str();
}

}  // namespace property
