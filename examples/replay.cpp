// Replays an access log against rate limits: which limit would have refused whom?
//
//   replay --limit 20 --window 1min examples/data/access.log
//
// The limiters are the library's own, on the in-process store, under a clock that the log's times move.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "replay/arrival_order.hpp"
#include "replay/clf.hpp"
#include "replay/line_reader.hpp"
#include "replay/options.hpp"
#include "replay/progress.hpp"
#include "replay/report.hpp"
#include "replay/tally.hpp"

namespace {

struct request {
  std::string client;
  std::string path;  // its first part: /blog of /blog/2015/may
};

// A limiter takes regions of up to 512 bytes: no real first part is longer than this.
std::string first_part(std::string_view path) {
  constexpr std::size_t longest = 255;
  return std::string{path.substr(0, std::min(path.find('/', 1), longest))};
}

replay::log_facts run(std::istream& in, std::uint64_t size, ratelimit::manual_clock clock,
                      std::vector<replay::tally>& tallies) {
  replay::log_facts log;
  replay::line_reader reader{in};
  replay::arrival_order<request> order;
  replay::progress progress{size};

  const auto arrive = [&](ratelimit::time_point time, const request& who) {
    clock.set(time);
    if (log.requests++ == 0) log.first = time;
    log.last = time;
    ++log.by_client[who.client];
    for (replay::tally& each : tallies) each.ask(who.client, who.path);
  };

  while (reader.next()) {
    progress.tell(reader.number(), reader.bytes());
    const auto line = replay::parse(reader.line());
    if (!line) {
      if (log.malformed++ == 0) log.first_malformed = reader.number();
      continue;
    }
    order.add(line->time, request{std::string{line->client}, first_part(line->path)}, arrive);
  }
  order.finish(arrive);
  log.out_of_order = order.out_of_order();
  log.late = order.late();
  return log;
}

int replay_log(const replay::options& chosen) {
  const bool from_stdin = chosen.file == "-";
  std::ifstream file;
  std::uint64_t size = 0;
  if (from_stdin) {
    std::ios::sync_with_stdio(false);
    if (isatty(STDIN_FILENO)) std::cerr << "replay: reading the log from standard input\n";
  } else {
    file.open(chosen.file, std::ios::binary);
    if (!file) throw std::system_error{errno, std::generic_category(), chosen.file};
    std::error_code unknown;
    if (std::filesystem::is_regular_file(chosen.file, unknown)) size = std::filesystem::file_size(chosen.file, unknown);
  }
  std::istream& in = from_stdin ? std::cin : file;

  const ratelimit::manual_clock clock;
  std::vector<replay::tally> tallies;
  for (const replay::policy& each : chosen.policies) tallies.emplace_back(each, clock);
  replay::log_facts log = run(in, size, clock, tallies);
  if (in.bad()) throw std::system_error{errno, std::generic_category(), chosen.file};

  log.name = from_stdin ? "standard input" : chosen.file;
  replay::print_report(std::cout, log, tallies);
  if (!std::cout.flush()) throw std::runtime_error{"cannot write the report"};
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const replay::options chosen = replay::parse_options({argv + 1, argv + argc});
    if (chosen.help) {
      std::cout << replay::usage;
      return 0;
    }
    return replay_log(chosen);
  } catch (const replay::usage_error& error) {
    std::cerr << "replay: " << error.what() << "\nreplay --help tells the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << '\n';
    return 1;
  }
}
