// What a check costs, beside what else could have been done: every pair of figures is measured in turn, in one run, on
// servers of this program's own. --json prints the table for machines.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "classic.hpp"
#include "measure.hpp"
#include "raw_client.hpp"
#include "support/allocations.hpp"
#include "support/server.hpp"
#include "table.hpp"

namespace {

using namespace std::chrono_literals;
using ratelimit::fail;

constexpr int rounds = 15;

std::string identity(int i) {
  return "user-" + std::to_string(1000 + i % 1000);
}

// The server's own time for one script, in microseconds, over what `run` makes it do.
double server_time(support::server& server, const std::function<void()>& run) {
  server.reset_statistics();
  run();
  const std::string text = server.command({"INFO", "commandstats"}).text;
  const auto at = text.find("cmdstat_evalsha:");
  return std::stod(text.substr(text.find("usec_per_call=", at) + 14));
}

// What is sent for one check, as words, to be sent by hand.
std::vector<std::string> words_of_check(const std::string& key, std::int64_t now, std::int64_t limit,
                                        std::int64_t window, const ratelimit::detail::script& script) {
  return {"EVALSHA",
          std::string{script.sha1},
          "1",
          key,
          std::to_string(now),
          std::to_string(limit),
          std::to_string(window)};
}
std::vector<std::string_view> views(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

std::int64_t now_us() {
  return ratelimit::system_clock{}.now().time_since_epoch().count();
}

// Every limiter with limits that always pass, on one store.
template <class Clock>
struct limiters {
  explicit limiters(ratelimit::redis& store, std::int64_t limit = 1'000'000'000, const std::string& prefix = "ours:")
      : log{store,
            {.name = "log",
             .limit = limit,
             .window = 1h,
             .on_failure = fail::closed,
             .deadline = 5s,
             .prefix = prefix}},
        compact{store,
                {.name = "compact",
                 .limit = limit,
                 .window = 1h,
                 .storage = ratelimit::log_storage::compact,
                 .on_failure = fail::closed,
                 .deadline = 5s,
                 .prefix = prefix}},
        counter{store,
                {.name = "counter",
                 .limit = limit,
                 .window = 1h,
                 .on_failure = fail::closed,
                 .deadline = 5s,
                 .prefix = prefix}},
        bucket{store,
               {.name = "bucket",
                .capacity = limit,
                .refill = 1,
                .per = 1h,
                .on_failure = fail::closed,
                .deadline = 5s,
                .prefix = prefix}},
        window{store,
               {.name = "window",
                .limit = limit,
                .window = 24h,
                .on_failure = fail::closed,
                .deadline = 5s,
                .prefix = prefix}} {}

  ratelimit::sliding_log<ratelimit::redis, Clock> log, compact;
  ratelimit::sliding_counter<ratelimit::redis, Clock> counter;
  ratelimit::token_bucket<ratelimit::redis, Clock> bucket;
  ratelimit::fixed_window<ratelimit::redis, Clock> window;
};

template <class Limiter>
std::function<void()> checks(const Limiter& limiter, int count, int identities = 1000) {
  return [&limiter, count, identities] {
    for (int i = 0; i < count; ++i) {
      if (limiter.check(identity(i % identities)).from != ratelimit::source::redis) {
        std::fprintf(stderr, "bench: a check was not counted\n");
        std::abort();
      }
    }
  };
}

void against_raw(bench::table& out, support::server& server, const std::string& where, const std::string& url,
                 const char* over) {
  ratelimit::redis store{url};
  const limiters<ratelimit::system_clock> ours{store};
  bench::raw_client raw{where};
  raw.load(ratelimit::detail::scripts::fixed_window.source);
  const auto script = ratelimit::detail::scripts::fixed_window;
  std::vector<double> p99_ours, p99_raw;
  const auto latency_ours = [&] {
    const auto times = bench::latencies(2000, [&](int i) { ours.window.check(identity(i)); });
    p99_ours.push_back(bench::quantile(times, 0.99));
    return bench::median(times);
  };
  const auto latency_raw = [&] {
    const auto times = bench::latencies(2000, [&](int i) {
      raw.command(
          views(words_of_check("raw:window:{" + identity(i) + "}:", now_us(), 1'000'000'000, 86'400'000'000, script)));
    });
    p99_raw.push_back(bench::quantile(times, 0.99));
    return bench::median(times);
  };
  const bench::pair_of p50 = bench::alternate(rounds, latency_ours, latency_raw);
  out.add({std::string{"p50 of check() / raw hiredis, the same script, "} + over, p50.ours, p50.other, p50.ratio, 1.05,
           false, "us"});
  out.add({std::string{"p99 of the same, "} + over, bench::median(p99_ours), bench::median(p99_raw),
           bench::median(p99_ours) / bench::median(p99_raw), 0, false, "us"});
  const bench::pair_of ping = bench::alternate(
      rounds, latency_ours, [&] { return bench::median(bench::latencies(2000, [&](int) { raw.command({"PING"}); })); });
  out.add(
      {std::string{"p50 of check() / PING, the floor, "} + over, ping.ours, ping.other, ping.ratio, 0, false, "us"});

  std::vector<ratelimit::call> calls(32);
  std::vector<std::string> names;
  for (int i = 0; i < 32; ++i) names.push_back(identity(i));
  for (std::size_t i = 0; i < 32; ++i) calls[i].identity = names[i];
  const auto batches = [&](const std::function<void()>& one) {
    return [one] {
      const auto began = std::chrono::steady_clock::now();
      for (int i = 0; i < 200; ++i) one();
      return 6400 / std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
  };
  const bench::pair_of batch =
      bench::alternate(rounds, batches([&] { ours.window.check_many(calls); }), batches([&] {
                         for (int i = 0; i < 32; ++i)
                           raw.append(views(words_of_check("raw:window:{" + identity(i) + "}:", now_us(), 1'000'000'000,
                                                           86'400'000'000, script)));
                         for (int i = 0; i < 32; ++i) raw.read();
                       }));
  out.add({std::string{"checks/s, check_many of 32 / raw pipeline of 32, "} + over, batch.ours, batch.other,
           batch.ratio, 0, true, "1/s"});
  (void)server;
}

// Checks a second with so many threads.
double throughput(int threads, const std::function<std::function<void(int)>()>& make) {
  constexpr auto length = 300ms;
  std::atomic<bool> stop{false};
  std::atomic<long long> done{0};
  std::vector<std::jthread> running;
  std::vector<std::function<void(int)>> calls;
  for (int t = 0; t < threads; ++t) calls.push_back(make());
  const auto began = std::chrono::steady_clock::now();
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      long long own = 0;
      for (int i = t; !stop; ++i, ++own) calls[static_cast<std::size_t>(t)](i);
      done += own;
    });
  std::this_thread::sleep_for(length);
  stop = true;
  running.clear();
  return static_cast<double>(done) / std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void many_threads(bench::table& out, const std::string& where, const std::string& url, const char* over) {
  ratelimit::redis store{url};
  const limiters<ratelimit::system_clock> ours{store};
  const auto script = ratelimit::detail::scripts::fixed_window;
  bench::raw_client{where}.load(script.source);
  for (const auto& [threads, bar] : {std::pair{1, 0.95}, {8, 0.95}, {32, 1.5}}) {
    const bench::pair_of got = bench::alternate(
        rounds,
        [&, n = threads] { return throughput(n, [&] { return [&](int i) { ours.window.check(identity(i)); }; }); },
        [&, n = threads] {
          return throughput(n, [&] {
            auto raw = std::make_shared<bench::raw_client>(where);
            return [raw, script](int i) {
              raw->command(views(words_of_check("raw:window:{" + identity(i) + "}:", now_us(), 1'000'000'000,
                                                86'400'000'000, script)));
            };
          });
        });
    out.add({"checks/s, " + std::to_string(threads) + " threads on 4 connections / a raw one each, " + over, got.ours,
             got.other, got.ratio, bar, true, "1/s"});
  }
}

void against_classic(bench::table& out, support::server& server, ratelimit::redis& store) {
  bench::raw_client raw{server.socket_path()};
  const limiters<ratelimit::system_clock> ours{store};
  constexpr int count = 2000;
  const auto sha = [&](std::string_view source) { return raw.load(source); };
  const std::string log = sha(bench::classic::sliding_log), counter = sha(bench::classic::two_key_counter),
                    bucket = sha(bench::classic::token_bucket), window = sha(bench::classic::fixed_window);
  long long member = 0;
  const auto classic_log = [&](int identities, const char* limit) {
    return [&, identities, limit] {
      for (int i = 0; i < count; ++i)
        raw.command({"EVALSHA", log, "1", "classic:log:" + identity(i % identities), std::to_string(now_us()),
                     "3600000000", limit, std::to_string(++member)});
    };
  };
  const auto compare = [&](const std::string& figure, double bar, const std::function<void()>& a,
                           const std::function<void()>& b) {
    const bench::pair_of got = bench::alternate(
        rounds, [&] { return server_time(server, a); }, [&] { return server_time(server, b); });
    out.add({figure, got.ours, got.other, got.ratio, bar, false, "us"});
  };
  const std::string many = ", 1,000 identities", hot = ", one hot identity";
  const auto classic_words = [&](const std::function<void(int)>& one) {
    return [one] {
      for (int i = 0; i < count; ++i) one(i);
    };
  };
  compare("server time, sorted-set log / classic" + many, 1.05, checks(ours.log, count),
          classic_log(1000, "1000000000"));
  compare("server time, sorted-set log / classic" + hot, 0, checks(ours.log, count, 1), classic_log(1, "1000000000"));
  compare("server time, compact log / classic log" + many, 0.75, checks(ours.compact, count),
          classic_log(1000, "1000000000"));
  compare("server time, compact log / classic log" + hot, 0, checks(ours.compact, count, 1),
          classic_log(1, "1000000000"));
  compare("server time, counter / classic two keys" + many, 0.95, checks(ours.counter, count),
          classic_words([&](int i) {
            const std::string key = "classic:counter:" + identity(i);
            raw.command({"EVALSHA", counter, "2", key + ":1", key + ":0", "1000000000", "3600", "0.4"});
          }));
  compare("server time, token bucket / classic" + many, 0.80, checks(ours.bucket, count), classic_words([&](int i) {
            raw.command({"EVALSHA", bucket, "1", "classic:bucket:" + identity(i), "1000000000", "1",
                         std::to_string(static_cast<double>(now_us()) / 1e6), "1"});
          }));
  compare("server time, fixed window / INCR and PEXPIRE" + many, 0, checks(ours.window, count),
          classic_words([&](int i) {
            raw.command({"EVALSHA", window, "1", "classic:window:" + identity(i), "1000000000", "86400000"});
          }));
}

void within_ourselves(bench::table& out, support::server& server, ratelimit::redis& store) {
  constexpr int count = 2000;
  const limiters<ratelimit::system_clock> allowed{store};
  const limiters<ratelimit::server_clock> by_server{store};
  const limiters<ratelimit::system_clock> refusing{store, 1, "refused:"};
  const auto compare = [&](const std::string& figure, double bar, const auto& a, const auto& b) {
    const bench::pair_of got = bench::alternate(
        rounds, [&] { return server_time(server, checks(a, count)); },
        [&] { return server_time(server, checks(b, count)); });
    out.add({figure, got.ours, got.other, got.ratio, bar, false, "us"});
  };
  compare("server time, server_clock / system_clock, sorted-set log", 1.25, by_server.log, allowed.log);
  compare("server time, server_clock / system_clock, compact log", 1.25, by_server.compact, allowed.compact);
  compare("server time, server_clock / system_clock, counter", 1.25, by_server.counter, allowed.counter);
  compare("server time, server_clock / system_clock, token bucket", 1.25, by_server.bucket, allowed.bucket);
  compare("server time, server_clock / system_clock, fixed window", 1.25, by_server.window, allowed.window);
  compare("server time, refused / allowed, sorted-set log", 0.8, refusing.log, allowed.log);
  compare("server time, refused / allowed, compact log", 0.8, refusing.compact, allowed.compact);
  compare("server time, refused / allowed, counter", 0.8, refusing.counter, allowed.counter);
  compare("server time, refused / allowed, token bucket", 0.8, refusing.bucket, allowed.bucket);
  compare("server time, refused / allowed, fixed window", 0.8, refusing.window, allowed.window);
}

// A full log in its steady state: each call pushes one entry out.
void by_limit(bench::table& out, support::server& server, ratelimit::redis& store) {
  const auto full = [&](std::int64_t limit, ratelimit::log_storage storage) {
    ratelimit::manual_clock clock{ratelimit::time_point{1'700'000'000s}};
    ratelimit::sliding_log limiter{store,
                                   {.name = "full" + std::to_string(limit),
                                    .limit = limit,
                                    .window = 1000s,
                                    .storage = storage,
                                    .on_failure = fail::closed,
                                    .deadline = 5s},
                                   clock};
    const std::chrono::microseconds step = std::chrono::microseconds{1000s} / limit;
    for (std::int64_t i = 0; i < limit; ++i, clock.advance(step)) limiter.check("full");
    return [limiter, clock, step]() mutable {
      for (int i = 0; i < 1000; ++i, clock.advance(step)) limiter.check("full");
    };
  };
  for (const auto& [storage, name, bar] : {std::tuple{ratelimit::log_storage::compact, "compact log", 1.2},
                                           std::tuple{ratelimit::log_storage::sorted_set, "sorted-set log", 0.0}}) {
    const auto large = full(100'000, storage), small = full(100, storage);
    const bench::pair_of got = bench::alternate(
        rounds, [&] { return server_time(server, large); }, [&] { return server_time(server, small); });
    out.add({std::string{"server time, full at limit 100,000 / at 100, "} + name, got.ours, got.other, got.ratio, bar,
             false, "us"});
  }
}

void bytes(bench::table& out, support::server& server, ratelimit::redis& store) {
  const auto usage = [&](const std::string& key) {
    return static_cast<double>(server.command({"MEMORY", "USAGE", key, "SAMPLES", "0"}).number);
  };
  const auto entries = [&](ratelimit::log_storage storage, const std::string& tag, const char* name, double bar) {
    ratelimit::sliding_log limiter{store,
                                   {.name = "bytes",
                                    .limit = 10'000,
                                    .window = 1h,
                                    .storage = storage,
                                    .on_failure = fail::closed,
                                    .deadline = 5s}};
    for (int i = 0; i < 10'000; ++i) limiter.check("one");
    const double each = usage("ratelimit:" + tag + ":bytes:{one}:") / 10'000;
    out.add({std::string{"bytes per entry, 10,000 entries, "} + name, each, 1, each, bar, false, "bytes"});
  };
  entries(ratelimit::log_storage::compact, "compact", "compact log", 12);
  entries(ratelimit::log_storage::sorted_set, "log", "sorted-set log", 0);

  // Keys of 40 bytes: "ratelimit:counter:n:{" and "}:" leave the identity 17.
  const limiters<ratelimit::server_clock> short_names{store};
  const auto key_bytes = [&](const auto& limiter, const std::string& head, const char* name, double bar) {
    const std::string who(40 - head.size() - 3, 'x');
    limiter.check(who);
    const double used = usage(head + "{" + who + "}:");
    out.add({std::string{"bytes per key of 40 bytes, "} + name, used, 1, used, bar, false, "bytes"});
  };
  key_bytes(short_names.counter, "ours:counter:counter:", "counter", 100);
  key_bytes(short_names.bucket, "ours:bucket:bucket:", "token bucket", 100);
  key_bytes(short_names.window, "ours:window:window:", "fixed window", 0);
}

// Three limits decided together, beside the same three one after the other.
void several(bench::table& out, support::server& server, ratelimit::redis& store) {
  const limiters<ratelimit::system_clock> ours{store, 1'000'000'000, "several:"};
  const ratelimit::all_of quota{ours.log, ours.counter, ours.window};
  const auto joint = [&](int i) { quota.check(identity(i)); };
  const auto singles = [&](int i) {
    ours.log.check(identity(i));
    ours.counter.check(identity(i));
    ours.window.check(identity(i));
  };
  const bench::pair_of time = bench::alternate(
      rounds, [&] { return bench::median(bench::latencies(1000, joint)); },
      [&] { return bench::median(bench::latencies(1000, singles)); });
  out.add({"p50, all_of three limits / three single checks", time.ours, time.other, time.ratio, 0.6, false, "us"});

  // What the commands inside cost by themselves, and the script around them.
  std::vector<double> scripts, inner, ratios;
  for (int round = 0; round < rounds; ++round) {
    server.reset_statistics();
    for (int i = 0; i < 1000; ++i) joint(i);
    const std::string text = server.command({"INFO", "commandstats"}).text;
    double script = 0, rest = 0;
    for (std::size_t at = text.find("cmdstat_"); at != std::string::npos; at = text.find("cmdstat_", at + 1)) {
      const std::string name = text.substr(at + 8, text.find(':', at) - at - 8);
      const double spent = std::stod(text.substr(text.find("usec=", at) + 5));
      if (name == "evalsha") {
        script = spent / 1000;
      } else if (name != "info" && name != "config|resetstat") {
        rest += spent / 1000;
      }
    }
    scripts.push_back(script);
    inner.push_back(rest);
    ratios.push_back(script / rest);
  }
  out.add({"server time, all_of three limits / the commands inside it", bench::median(scripts), bench::median(inner),
           bench::median(ratios), 1.3, false, "us"});
  const auto three = [&] {
    for (int i = 0; i < 1000; ++i) singles(i);
  };
  const bench::pair_of whole = bench::alternate(
      rounds,
      [&] {
        return server_time(server, [&] {
          for (int i = 0; i < 1000; ++i) joint(i);
        });
      },
      [&] { return 3 * server_time(server, three); });
  out.add({"server time, all_of three limits / three single scripts", whole.ours, whole.other, whole.ratio, 0, false,
           "us"});
}

// What stays in the process.
void in_process(bench::table& out, ratelimit::redis& store) {
  ratelimit::memory memory;
  ratelimit::sliding_log refusing{
      store,
      {.name = "denied", .limit = 1, .window = 1h, .on_failure = fail::closed, .deadline = 5s, .deny_cache = 1000}};
  for (int i = 0; i < 2; ++i) refusing.check("hammer");
  const auto each = [](const auto& call) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 100'000; ++i) call();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / 100'000;
  };
  std::vector<double> denied;
  for (int round = 0; round < rounds; ++round) denied.push_back(each([&] { refusing.check("hammer"); }));
  out.add({"a refusal out of the deny cache", bench::median(denied), 1, bench::median(denied), 0.3, false, "us"});

  const ratelimit::metrics metrics;
  ratelimit::fixed_window plain{
      memory, {.name = "plain", .limit = 1'000'000'000'000, .window = 24h, .on_failure = fail::closed}};
  ratelimit::fixed_window observed{
      memory,
      {.name = "observed", .limit = 1'000'000'000'000, .window = 24h, .on_failure = fail::closed, .observer = metrics}};
  const bench::pair_of seen = bench::alternate(
      rounds, [&] { return each([&] { observed.check("one"); }); }, [&] { return each([&] { plain.check("one"); }); });
  out.add({"a check in memory with metrics, beyond one without", seen.ours, seen.other, seen.ours - seen.other, 0.1,
           false, "us"});
}

void per_check(bench::table& out, support::server& server, ratelimit::redis& store) {
  const limiters<ratelimit::server_clock> ours{store};
  const std::string who = identity(1);
  const auto each = [&](const char* name, const auto& limiter) {
    for (int i = 0; i < 100; ++i) limiter.check(who, "eu");
    const std::size_t before = support::allocations_here();
    for (int i = 0; i < 1000; ++i) limiter.check(who, "eu");
    const double made = static_cast<double>(support::allocations_here() - before) / 1000;
    out.add({std::string{"heap allocations per check, "} + name, made, 1, made, 0.0001, false, ""});
    server.reset_statistics();
    for (int i = 0; i < 1000; ++i) limiter.check(who, "eu");
    const double commands = static_cast<double>(server.calls("evalsha") + server.calls("eval")) / 1000;
    out.add({std::string{"commands on the wire per check, "} + name, commands, 1, commands, 1, false, ""});
  };
  each("sorted-set log", ours.log);
  each("compact log", ours.compact);
  each("counter", ours.counter);
  each("token bucket", ours.bucket);
  each("fixed window", ours.window);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view{argv[1]} == "--json";
  support::server server{{.tcp = true}};
  ratelimit::redis store{server.url()};
  bench::table out;
  against_raw(out, server, server.socket_path(), server.url(), "Unix socket");
  against_raw(out, server, std::to_string(server.port()), server.tcp_url(), "TCP");
  many_threads(out, server.socket_path(), server.url(), "Unix socket");
  many_threads(out, std::to_string(server.port()), server.tcp_url(), "TCP");
  against_classic(out, server, store);
  within_ourselves(out, server, store);
  by_limit(out, server, store);
  several(out, server, store);
  in_process(out, store);
  bytes(out, server, store);
  per_check(out, server, store);
  if (json) {
    out.print_json();
  } else {
    out.print();
  }
}
