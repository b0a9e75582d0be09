// A recipe as a table: when, which call, what must come back.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>

#include "backends.hpp"
#include "catch.hpp"

namespace recipes {

// The figures of a decision, as a recipe gives them.
struct answer {
  bool allowed;
  std::int64_t used;
  std::int64_t remaining;
  std::optional<microseconds> retry;
  microseconds reset;
  microseconds full;

  bool operator==(const answer&) const = default;

  friend std::ostream& operator<<(std::ostream& out, const answer& a) {
    out << (a.allowed ? "allowed" : "denied") << ", used " << a.used << ", remaining " << a.remaining;
    if (a.retry) out << ", retry " << a.retry->count() << " us";
    return out << ", reset " << a.reset.count() << " us, full " << a.full.count() << " us";
  }
};

constexpr answer pass(std::int64_t used, std::int64_t remaining, microseconds reset, microseconds full) {
  return {true, used, remaining, {}, reset, full};
}
constexpr answer deny(std::int64_t used, std::int64_t remaining, microseconds retry, microseconds reset,
                      microseconds full) {
  return {false, used, remaining, retry, reset, full};
}
// Denied, and waiting cannot help.
constexpr answer never(std::int64_t used, std::int64_t remaining, microseconds reset, microseconds full) {
  return {false, used, remaining, {}, reset, full};
}
// A quota nobody has used.
constexpr answer untouched(std::int64_t limit) {
  return pass(0, limit, 0us, 0us);
}

inline answer figures(const ratelimit::decision& d) {
  return {d.allowed, d.used, d.remaining, d.retry_after, d.reset_after, d.full_after};
}

// The fields that say who answered, and when.
template <class Backend>
void check_counted(const Backend& b, const ratelimit::decision& d) {
  CHECK(d.from == Backend::origin);
  CHECK(d.error == std::error_code{});
  CHECK(d.counted());
  CHECK(static_cast<bool>(d) == d.allowed);
  CHECK_FALSE(d.would_deny);
  CHECK(d.at == b.clock.now());
}

struct call {
  ratelimit::operation op;
  std::int64_t cost;
};
constexpr call take(std::int64_t cost = 1) {
  return {ratelimit::operation::take, cost};
}
constexpr call peek(std::int64_t cost = 1) {
  return {ratelimit::operation::peek, cost};
}
constexpr call refund(std::int64_t cost) {
  return {ratelimit::operation::refund, cost};
}

template <class Limiter>
ratelimit::decision make(const Limiter& limiter, const call& what, std::string_view identity = "client",
                         std::string_view region = "eu") {
  switch (what.op) {
    case ratelimit::operation::peek: return limiter.peek(identity, region, what.cost);
    case ratelimit::operation::refund: return limiter.refund(identity, region, what.cost);
    default: return limiter.check(identity, region, what.cost);
  }
}

struct row {
  microseconds at;  // from the start
  call what;
  answer want;
};

// Makes the calls one after the other and compares every field.
template <class Backend, class Limiter>
void follow(Backend& b, const Limiter& limiter, std::initializer_list<row> rows, time_point start = w0) {
  for (const row& r : rows) {
    b.clock.set(start + r.at);
    const ratelimit::decision d = make(limiter, r.what);
    INFO("row " << &r - rows.begin() << ", at " << r.at.count() << " us, cost " << r.what.cost);
    CHECK(figures(d) == r.want);
    check_counted(b, d);
  }
}

// How many of `calls` calls are allowed at this instant.
template <class Limiter>
int allowed(const Limiter& limiter, int calls, std::string_view identity = "client", std::string_view region = "eu") {
  int passed = 0;
  for (int i = 0; i < calls; ++i) passed += limiter.check(identity, region).allowed;
  return passed;
}

}  // namespace recipes
