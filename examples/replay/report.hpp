// What the replay prints: plain text in aligned columns.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ratelimit/decision.hpp>

#include "policy.hpp"
#include "tally.hpp"

namespace replay {

// What was read, whatever the policies.
struct log_facts {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t malformed = 0;
  std::uint64_t first_malformed = 0;  // its line number; the first line is 1
  std::uint64_t out_of_order = 0;
  std::uint64_t late = 0;
  ratelimit::time_point first{};
  ratelimit::time_point last{};
  std::unordered_map<std::string, std::uint64_t> by_client;
};

namespace detail {

// 2015-05-17 10:05:03
inline std::string utc_text(ratelimit::time_point time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{std::chrono::floor<std::chrono::seconds>(time - day)};
  std::ostringstream text;
  text << std::setfill('0') << std::setw(4) << int{date.year()} << '-' << std::setw(2) << unsigned{date.month()} << '-'
       << std::setw(2) << unsigned{date.day()} << ' ' << std::setw(2) << clock.hours().count() << ':' << std::setw(2)
       << clock.minutes().count() << ':' << std::setw(2) << clock.seconds().count();
  return text.str();
}

// "    388    3.88%"
inline std::string share_text(std::uint64_t part, std::uint64_t whole) {
  const double percent = whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::ostringstream text;
  text << std::setw(11) << part << std::setw(8) << std::fixed << std::setprecision(2) << percent << '%';
  return text.str();
}

// "2  sliding_counter  "
inline std::string label(std::size_t index, const policy& p) {
  std::ostringstream text;
  text << std::setw(2) << index + 1 << "  " << std::left << std::setw(17) << name_of(algorithms, p.kind);
  return text.str();
}

inline std::string counted(std::uint64_t number, std::string_view what) {
  return std::to_string(number).append(" ").append(what).append(number == 1 ? "" : "s");
}

inline void print_log(std::ostream& out, const log_facts& log) {
  out << log.name << ": " << counted(log.requests, "request") << " of " << counted(log.by_client.size(), "client");
  if (log.requests > 0) out << ", " << utc_text(log.first) << " to " << utc_text(log.last) << " UTC";
  out << '\n';
  if (log.malformed > 0) {
    out << counted(log.malformed, "malformed line") << " left out, the first is line " << log.first_malformed << '\n';
  }
  if (log.out_of_order > 0) {
    out << counted(log.out_of_order, "line") << " out of order, put back where "
        << (log.out_of_order == 1 ? "it" : "they") << " came in\n";
  }
  if (log.late > 0) {
    out << log.late
        << " of them too late for that, and replayed at the time already reached: a wrong time stamp, or parts "
        << "of the log in the wrong order?\n";
  }
}

inline void print_verdicts(std::ostream& out, const std::vector<tally>& tallies, std::uint64_t requests) {
  std::size_t widest = 0;
  for (const tally& each : tallies) widest = std::max(widest, numbers_text(each.chosen()).size());
  const int width = static_cast<int>(widest);
  out << "\npolicy" << std::string(15 + widest, ' ') << "           admitted             refused\n";
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const tally& each = tallies[i];
    out << label(i, each.chosen()) << std::left << std::setw(width) << numbers_text(each.chosen()) << std::right
        << share_text(each.admitted(), requests) << share_text(each.refused(), requests) << '\n';
  }
}

inline void print_differences(std::ostream& out, const std::vector<tally>& tallies, std::uint64_t requests) {
  bool any = false;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const tally& each = tallies[i];
    if (!each.compared()) continue;
    if (!any) out << "\nagainst the exact log    wrongly admitted     wrongly refused\n";
    any = true;
    out << label(i, each.chosen()) << share_text(each.wrongly_admitted(), requests)
        << share_text(each.wrongly_refused(), requests) << '\n';
  }
}

inline void print_refused_most(std::ostream& out, const std::vector<tally>& tallies, const log_facts& log) {
  constexpr std::size_t shown = 5;
  out << "\nclients refused most                                    refused  of requests\n";
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    std::string head = label(i, tallies[i].chosen());
    const auto most = tallies[i].refused_most(shown);
    if (most.empty()) out << head << "nobody\n";
    for (const auto& [client, refused] : most) {
      out << head << std::left << std::setw(30) << client << std::right << std::setw(12) << refused << std::setw(13)
          << log.by_client.at(std::string{client}) << '\n';
      head.assign(head.size(), ' ');
    }
    if (tallies[i].clients_refused() > shown) {
      out << head << "and " << counted(tallies[i].clients_refused() - shown, "other") << '\n';
    }
  }
}

}  // namespace detail

inline void print_report(std::ostream& out, const log_facts& log, const std::vector<tally>& tallies) {
  detail::print_log(out, log);
  for (const tally& each : tallies) {
    if (each.full()) {
      out << "more than " << tally::most_keys << " keys at once: the least used were forgotten, so that more passed\n";
      break;
    }
  }
  detail::print_verdicts(out, tallies, log.requests);
  detail::print_differences(out, tallies, log.requests);
  detail::print_refused_most(out, tallies, log);
}

}  // namespace replay
