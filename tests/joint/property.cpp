// Random combinations and random calls: Redis against memory against a reference that takes all or nothing on exact
// models, one for each key. Every field of every verdict and part is equal, and a refusal leaves every key as it was.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "catch.hpp"
#include "joint/limits.hpp"
#include "joint/stores.hpp"
#include "property/reference.hpp"
#include "property/run.hpp"
#include "property/sequence.hpp"
#include "support/server.hpp"

using namespace joint;
using property::dice;
using reference::count;
using reference::wide;

namespace {

enum class kind { log, compact, counter, bucket, window };

// One limit of a combination, as chosen for a sequence.
struct spec {
  kind algorithm;
  std::string name;
  reference::numbers numbers;
  scope by;
  bool shadow;
};

template <kind K, class Store>
auto make_limit(Store& where, const manual_clock& clock, const spec& s) {
  const microseconds window{s.numbers.window};
  const auto common = [&](auto chosen) {
    chosen.name = s.name;
    chosen.by = s.by;
    chosen.shadow = s.shadow;
    chosen.deadline = patience;
    return chosen;
  };
  if constexpr (K == kind::log || K == kind::compact) {
    constexpr log_storage storage = K == kind::log ? log_storage::sorted_set : log_storage::compact;
    return sliding_log{where,
                       common(sliding_log_options{
                           .limit = s.numbers.limit, .window = window, .storage = storage, .on_failure = fail::closed}),
                       clock};
  } else if constexpr (K == kind::counter) {
    return sliding_counter{
        where, common(sliding_counter_options{.limit = s.numbers.limit, .window = window, .on_failure = fail::closed}),
        clock};
  } else if constexpr (K == kind::bucket) {
    return token_bucket{
        where,
        common(token_bucket_options{
            .capacity = s.numbers.limit, .refill = s.numbers.refill, .per = window, .on_failure = fail::closed}),
        clock};
  } else {
    return fixed_window{
        where, common(fixed_window_options{.limit = s.numbers.limit, .window = window, .on_failure = fail::closed}),
        clock};
  }
}

enum class act { check, peek, refund, reset, block };

struct step {
  act what;
  count now;
  std::string identity;
  std::string region;
  count cost;  // of a block: which limit
  std::string id;
};

std::string text_of(const step& s) {
  static constexpr const char* names[] = {"check", "peek", "refund", "reset", "block"};
  return std::string{names[static_cast<std::size_t>(s.what)]} + " " + s.identity + " " + s.region + " cost " +
         std::to_string(s.cost) + " id '" + s.id + "' at " + std::to_string(s.now);
}

std::string text_of(const spec& s) {
  static constexpr const char* names[] = {"log", "compact", "counter", "bucket", "window"};
  return std::string{names[static_cast<std::size_t>(s.algorithm)]} + " " + std::to_string(s.numbers.limit) + " per " +
         std::to_string(s.numbers.window) + ", refill " + std::to_string(s.numbers.refill) + ", scope " +
         std::to_string(static_cast<int>(s.by)) + (s.shadow ? ", shadow" : "");
}

constexpr count block_length = 3600 * property::second;

// What a combination answered: the verdict, then the parts.
using answers = std::vector<decision>;

answers both(const auto& d) {
  answers all{static_cast<const decision&>(d)};
  all.insert(all.end(), d.parts.begin(), d.parts.end());
  return all;
}

// A combination of one store, whatever its type.
struct subject {
  std::function<answers(const step&)> run;
};

template <kind... K, class Store>
subject make_subject(Store& where, const std::vector<spec>& specs) {
  manual_clock clock;
  const auto limits = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple{make_limit<K>(where, clock, specs[I])...};
  }
  (std::make_index_sequence<sizeof...(K)>{});
  const auto quota = std::apply([](const auto&... each) { return all_of{each...}; }, limits);
  return {[=](const step& s) mutable -> answers {
    clock.set(time_point{microseconds{s.now}});
    const call c{.identity = s.identity, .region = s.region, .cost = s.cost, .request_id = s.id};
    switch (s.what) {
      case act::check: return both(quota.check(c));
      case act::peek: return both(quota.peek(c));
      case act::refund: return both(quota.refund(s.identity, s.region, s.cost));
      case act::reset: return {{.error = quota.reset(s.identity, s.region)}};
      case act::block: break;
    }
    std::error_code error;
    count at = 0;
    std::apply(
        [&](const auto&... each) {
          (void)((at++ == s.cost && (error = each.block(s.identity, s.region, microseconds{block_length}), true)) ||
                 ...);
        },
        limits);
    return {{.error = error}};
  }};
}

// The sets of algorithms that are tried: each alone, and a mix of 2, 3, 4 and 5.
using memory_maker = subject (*)(memory&, const std::vector<spec>&);
using redis_maker = subject (*)(redis&, const std::vector<spec>&);
using apart_maker = subject (*)(apart<memory>&, const std::vector<spec>&);

struct combination {
  std::vector<kind> kinds;
  memory_maker on_memory;
  redis_maker on_redis;
  apart_maker on_apart;
};

template <kind... K>
combination combine() {
  return {{K...},
          [](memory& where, const std::vector<spec>& specs) { return make_subject<K...>(where, specs); },
          [](redis& where, const std::vector<spec>& specs) { return make_subject<K...>(where, specs); },
          [](apart<memory>& where, const std::vector<spec>& specs) { return make_subject<K...>(where, specs); }};
}

const std::vector<combination>& combinations() {
  using enum kind;
  static const std::vector<combination> all{
      combine<log>(),
      combine<counter>(),
      combine<bucket>(),
      combine<window>(),
      combine<log, log>(),
      combine<compact>(),
      combine<counter, bucket>(),
      combine<window, log>(),
      combine<bucket, window>(),
      combine<log, counter, window>(),
      combine<window, compact, counter>(),
      combine<bucket, log, bucket>(),
      combine<counter, window, log, bucket>(),
      combine<log, bucket, compact, window>(),
      combine<bucket, window, counter, log, counter>(),
      combine<window, log, bucket, counter, window>(),
  };
  return all;
}

// The state behind one key.
struct key_state {
  std::variant<reference::sliding_log, reference::sliding_counter, reference::token_bucket, reference::fixed_window>
      model;
  count blocked = 0;  // when it ends; 0: there is none
};

class joint_reference {
 public:
  explicit joint_reference(std::vector<spec> specs) : specs_{std::move(specs)} {}

  answers run(const step& s, source from) {
    if (s.what == act::reset) {
      for (const spec& limit : specs_) keys_.erase(key_of(limit, s));
      return {{}};
    }
    if (s.what == act::block) {
      key_state& key = state_of(specs_[static_cast<std::size_t>(s.cost)], s);
      key.blocked = std::max(key.blocked, s.now + block_length);
      return {{}};
    }
    const bool never = s.what == act::check && std::any_of(specs_.begin(), specs_.end(), [&](const spec& limit) {
                         return !limit.shadow && s.cost > limit.numbers.limit;
                       });
    const bool takes = s.what == act::check && s.cost > 0 && !never;
    const auto remembered = s.id.empty() ? ids_.end() : ids_.find(id_key(s));
    const bool again = takes && remembered != ids_.end() && s.now < remembered->second + span(specs_.front());

    std::vector<reference::answer> looks;
    bool refused = false;
    for (const spec& limit : specs_) {
      looks.push_back(look(limit, s));
      refused = refused || (!looks.back().allowed && !limit.shadow);
    }
    bool counted = false;
    answers parts;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const spec& limit = specs_[i];
      reference::answer a = looks[i];
      if (s.what == act::refund) {
        a = change(limit, s, [&](auto& model) { return reference::refund(model, limit.numbers, s.now, s.cost); });
      } else if (again && s.cost <= limit.numbers.limit) {
        // counted before, and the answer is that of then, but for a block
        a.allowed = state_of(limit, s).blocked <= s.now;
        if (a.allowed) a.retry.reset();
      } else if (takes && !again && !refused && a.allowed) {
        counted = true;
        a = change(limit, s, [&](auto& model) { return reference::check(model, limit.numbers, s.now, s.cost); });
      }
      parts.push_back(part(limit, s, a, from));
    }
    if (counted && !s.id.empty()) ids_[id_key(s)] = s.now;
    // A limit in shadow binds nobody, unless all are.
    std::size_t first = 0;
    for (std::size_t i = 1; i < specs_.size(); ++i)
      if (specs_[first].shadow != specs_[i].shadow ? specs_[first].shadow : binds(parts[i], parts[first])) first = i;
    decision verdict = parts[first];
    verdict.would_deny = std::any_of(parts.begin(), parts.end(), [](const decision& d) { return d.would_deny; });
    parts.insert(parts.begin(), verdict);
    return parts;
  }

  // Whether a key of this call may die, by the server's own clock, while the sequence still runs.
  bool dies_soon(const step& s) const {
    return std::any_of(specs_.begin(), specs_.end(), [&](const spec& limit) {
      const auto found = keys_.find(key_of(limit, s));
      if (found == keys_.end()) return false;
      const wide lives =
          std::visit([&](const auto& model) { return model.lifetime(limit.numbers, s.now); }, found->second.model);
      const wide longer = std::max<wide>(lives, found->second.blocked - s.now);
      return longer > 0 && longer < property::long_windows.safe_lifetime;
    });
  }
  bool blocked(const step& s) const {
    return std::any_of(specs_.begin(), specs_.end(), [&](const spec& limit) {
      const auto found = keys_.find(key_of(limit, s));
      return found != keys_.end() && found->second.blocked != 0;
    });
  }

 private:
  static std::string key_of(const spec& limit, const step& s) {
    return limit.name + (counts_identity(limit.by) ? "{" + s.identity + "}" : "") +
           (counts_region(limit.by) ? ":" + s.region : "");
  }
  static std::string id_key(const step& s) { return s.identity + " " + s.region + " " + s.id; }

  static count span(const spec& limit) {
    const auto& [most, window, refill] = limit.numbers;
    const wide fills = (wide{most} * window + refill - 1) / refill;
    return limit.algorithm == kind::bucket ? static_cast<count>(std::min<wide>(fills, property::most)) : window;
  }

  key_state& state_of(const spec& limit, const step& s) {
    const auto [found, made] = keys_.try_emplace(key_of(limit, s));
    if (made) {
      switch (limit.algorithm) {
        case kind::log:
        case kind::compact: break;
        case kind::counter: found->second.model = reference::sliding_counter{}; break;
        case kind::bucket: found->second.model = reference::token_bucket{}; break;
        case kind::window: found->second.model = reference::fixed_window{}; break;
      }
    }
    return found->second;
  }

  reference::answer held_back(const spec& limit, const step& s, reference::answer a) {
    const count held = state_of(limit, s).blocked - s.now;
    if (held <= 0) return a;
    if ((s.what != act::refund || s.cost == 0) && s.cost <= limit.numbers.limit) {
      a.allowed = false;
      a.retry = std::max(a.retry.value_or(0), held);
    }
    a.remaining = 0;
    // The end of the block brings back what was left before it.
    a.reset = a.used < limit.numbers.limit ? held : std::max(a.reset, held);
    return a;
  }

  reference::answer look(const spec& limit, const step& s) {
    return held_back(limit, s,
                     std::visit([&](const auto& model) { return reference::peek(model, limit.numbers, s.now, s.cost); },
                                state_of(limit, s).model));
  }

  template <class Change>
  reference::answer change(const spec& limit, const step& s, const Change& make) {
    key_state& key = state_of(limit, s);
    const reference::answer a = std::visit(make, key.model);
    if (a.wrote && key.blocked <= s.now) key.blocked = 0;
    return held_back(limit, s, a);
  }

  static decision part(const spec& limit, const step& s, const reference::answer& a, source from) {
    decision d{.allowed = a.allowed,
               .from = from,
               .limit_name = limit.name,
               .limit = limit.numbers.limit,
               .used = a.used,
               .remaining = a.remaining,
               .reset_after = microseconds{a.reset},
               .full_after = microseconds{a.full},
               .at = time_point{microseconds{s.now}},
               .window = microseconds{span(limit)}};
    if (a.retry) d.retry_after = microseconds{*a.retry};
    if (limit.shadow && !a.allowed) {
      d.allowed = d.would_deny = true;
      d.retry_after.reset();
    }
    return d;
  }

  // The definition once more: denied, without a wait, the longest wait; allowed, the smallest share.
  static bool binds(const decision& a, const decision& b) {
    const auto rank = [](const decision& d) { return d.allowed ? 2 : d.retry_after ? 1 : 0; };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (rank(a) == 1) return *a.retry_after > *b.retry_after;
    return rank(a) == 2 && wide{a.remaining} * b.limit < wide{b.remaining} * a.limit;
  }

  std::vector<spec> specs_;
  std::map<std::string, key_state> keys_{};
  std::map<std::string, count> ids_{};
};

// Chooses a combination, and one call after the other. `joined`: also what limits that are asked one after the other do
// not do alike. With the clock behind, what was taken and given back may have moved a key's window on; and a shadow
// limit that refused a call has not remembered its id.
class author {
 public:
  author(count sequence, bool joined)
      : random_{property::seed_of(sequence)},
        joined_{joined},
        chosen_{&combinations()[static_cast<std::size_t>(random_.below(static_cast<count>(combinations().size())))]} {
    for (const kind algorithm : chosen_->kinds) {
      spec s{.algorithm = algorithm,
             .name = "s" + std::to_string(sequence) + "-" + std::to_string(specs_.size()),
             .numbers = {.limit = random_.one_in(10) ? random_.spread(1, property::most) : random_.between(1, 12),
                         .window = random_.spread(600 * property::second, 30 * 24 * 3600 * property::second)},
             .by = static_cast<scope>(random_.one_in(2) ? 0 : random_.below(4)),
             .shadow = random_.one_in(6)};
      s.numbers.refill = random_.between(1, std::min<count>(s.numbers.limit, 20));
      specs_.push_back(s);
    }
    now_ = 1'750'000'000 * property::second + random_.below(property::ten_years);
  }

  const combination& chosen() const { return *chosen_; }
  const std::vector<spec>& specs() const { return specs_; }
  count length() { return random_.between(1, 24); }

  step next(const answers& last) {
    const bool shadows = std::any_of(specs_.begin(), specs_.end(), [](const spec& limit) { return limit.shadow; });
    step s{.what = act::check,
           .now = now_ = std::min(move(last), count{1} << 52),
           .identity = random_.one_in(4) ? "other" : "client",
           .region = random_.one_in(4) ? "us" : "eu",
           .cost = cost(),
           .id = random_.one_in(3) ? "r" + std::to_string(random_.below(3)) : ""};
    if (shadows && !joined_) s.id.clear();
    const count sort = random_.below(40);
    if (sort < 26) return s;
    s.what = sort < 31 ? act::peek : sort < 37 ? act::refund : sort < 39 ? act::reset : act::block;
    if (s.what == act::block) s.cost = random_.below(static_cast<count>(specs_.size()));
    return s;
  }

 private:
  const spec& any() { return specs_[static_cast<std::size_t>(random_.below(static_cast<count>(specs_.size())))]; }

  count cost() {
    if (random_.one_in(2)) return 1;
    if (random_.one_in(3)) return std::max<count>(any().numbers.limit + random_.between(-1, 1), 0);
    return random_.below(4);
  }

  count move(const answers& last) {
    const count window = any().numbers.window;
    const decision& told = last[static_cast<std::size_t>(random_.below(static_cast<count>(last.size())))];
    switch (random_.below(16)) {
      case 0: return now_ += told.reset_after.count();
      case 1: return now_ += std::max<count>(told.reset_after.count() - 1, 0);
      case 2: return now_ += told.full_after.count();
      case 3:
      case 4: return now_ += told.retry_after.value_or(microseconds{0}).count();
      case 5: return now_ += std::max<count>(told.retry_after.value_or(microseconds{0}).count() - 1, 0);
      case 6: return now_ = static_cast<count>((reference::floor_div(now_, window) + 1) * window) - random_.below(2);
      case 7: return now_ += random_.spread(1, 3 * window);
      case 8: return now_ += random_.between(0, window / 10);
      case 9: return joined_ ? now_ -= random_.spread(1, 2 * window) : now_;
      default: return now_;
    }
  }

  dice random_;
  bool joined_;
  const combination* chosen_;
  std::vector<spec> specs_{};
  count now_ = 0;
};

// Follows a sequence with the reference; `try_step` takes a subject along, and returns what is wrong.
template <class Try>
void follow(count sequence, bool joined, const Try& try_step) {
  author writer{sequence, joined};
  joint_reference wanted{writer.specs()};
  std::ostringstream history;
  history << "sequence " << sequence << ", seed " << property::seed_of(sequence) << "\n";
  for (const spec& s : writer.specs()) history << "  " << text_of(s) << "\n";
  answers last{{}};
  std::map<std::string, count> newest;
  const auto make = [&](const step& s) {
    history << "  " << text_of(s) << "\n";
    last = wanted.run(s, source::redis);
    const std::string failure = try_step(s, last);
    if (!failure.empty()) FAIL(history.str() + failure);
  };
  count before = 0;
  for (count left = writer.length(); left > 0; --left) {
    const step s = writer.next(last);
    // A block that is over may stand in one place and be gone from another: no step back brings it to life.
    for (const char* const identity : {"client", "other"})
      for (const char* const region : {"eu", "us"}) {
        const step reset{act::reset, s.now, identity, region, 1, {}};
        if (s.now < before && wanted.blocked(reset)) make(reset);
      }
    before = s.now;
    make(s);
    if (wanted.dies_soon(s)) make({act::reset, s.now, s.identity, s.region, 1, {}});
  }
}

// Nothing, or where the two differ.
std::string difference(const answers& wanted, const answers& got, std::string_view name) {
  for (std::size_t i = 0; i < std::max(wanted.size(), got.size()); ++i) {
    const auto text = [i](const answers& all) { return i < all.size() ? property::text_of(all[i]) : "nothing"; };
    if (i < wanted.size() && i < got.size() && property::same(wanted[i], got[i])) continue;
    return std::string{name} + (i == 0 ? ", the verdict" : ", part " + std::to_string(i - 1)) + "\n  expected " +
           text(wanted) + "\n  got      " + text(got);
  }
  return {};
}

answers as_redis(answers all) {
  for (decision& d : all)
    if (d.from == source::memory) d.from = source::redis;
  return all;
}

// What Redis holds: each key with its value's bytes and its lifetime.
std::map<std::string, std::pair<support::reply, long long>> all_keys(support::server& server) {
  std::map<std::string, std::pair<support::reply, long long>> all;
  for (const support::reply& key : server.command({"KEYS", "*"}).items)
    all[key.text] = {server.command({"DUMP", key.text}), server.command({"PTTL", key.text}).number};
  return all;
}

}  // namespace

TEST_CASE("memory and Redis decide combinations as the reference does, field by field", "[joint][property]") {
  support::server server;
  redis store{server.url()};
  for (count i = 0; i < property::sequences(); ++i) {
    author same{i, true};
    memory local{{.entries = 1000}};
    subject in_memory = same.chosen().on_memory(local, same.specs());
    subject in_redis = same.chosen().on_redis(store, same.specs());
    follow(i, true, [&](const step& s, const answers& wanted) {
      std::string failure = difference(wanted, as_redis(in_memory.run(s)), "memory");
      if (failure.empty()) failure = difference(wanted, in_redis.run(s), "Redis");
      return failure;
    });
  }
  SUCCEED();
}

TEST_CASE("a combination's call that is not counted leaves every key byte for byte as it was", "[joint][property]") {
  support::server server;
  redis store{server.url()};
  for (count i = 0; i < property::some_sequences(); ++i) {
    server.command({"FLUSHALL"});
    author same{i, true};
    subject in_redis = same.chosen().on_redis(store, same.specs());
    follow(i, true, [&](const step& s, const answers& wanted) -> std::string {
      const auto before = all_keys(server);
      const answers got = in_redis.run(s);
      std::string failure = difference(wanted, got, "Redis");
      const bool counts = s.what == act::check && s.cost > 0 && wanted.front().allowed;
      if (!failure.empty() || counts || s.what >= act::refund) return failure;
      const auto after = all_keys(server);
      for (const auto& [key, held] : after) {
        const auto found = before.find(key);
        if (found == before.end()) return "has made " + key;
        if (found->second.first != held.first) return "has changed " + key;
        if (held.second > found->second.second) return "has made " + key + " live longer";
        if (held.second < 0) return "has left " + key + " without a lifetime";
      }
      return before.size() == after.size() ? "" : "has removed a key";
    });
  }
  SUCCEED();
}

TEST_CASE("asked one after the other, combinations decide as the reference does", "[joint][property]") {
  for (count i = 0; i < property::sequences(); ++i) {
    author same{i, false};
    memory local{{.entries = 1000}};
    apart kept{local};
    subject tested = same.chosen().on_apart(kept, same.specs());
    follow(i, false, [&](const step& s, const answers& wanted) {
      return difference(wanted, as_redis(tested.run(s)), "one by one");
    });
  }
  SUCCEED();
}
