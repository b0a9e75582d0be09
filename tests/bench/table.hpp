// The figures as a table for people, or as JSON for machines.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace bench {

struct row {
  std::string figure;
  double ours = 0;
  double other = 0;  // 0: nothing to compare with
  double ratio = 0;  // what the bar is about
  double bar = 0;    // 0: none
  bool at_least = false;
  std::string unit{};

  bool holds() const { return bar == 0 || (at_least ? ratio >= bar : ratio <= bar); }
};

class table {
 public:
  void add(row made) {
    std::fprintf(stderr, "  %s\n", made.figure.c_str());
    rows_.push_back(std::move(made));
  }

  void print() const {
    std::printf("%-62s %10s %10s %-9s %7s  %s\n", "figure", "ours", "other", "unit", "ratio", "bar");
    for (const row& r : rows_) {
      const std::string bar =
          r.bar == 0 ? "" : (r.at_least ? ">= " : "<= ") + number(r.bar) + (r.holds() ? "" : "  MISSED");
      std::printf("%-62s %10.2f %10s %-9s %7s  %s\n", r.figure.c_str(), r.ours,
                  r.other == 0 ? "" : number(r.other).c_str(), r.unit.c_str(),
                  r.other == 0 ? "" : number(r.ratio).c_str(), bar.c_str());
    }
  }

  void print_json() const {
    std::printf("[");
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const row& r = rows_[i];
      std::printf("%s\n  {\"figure\": \"%s\", \"ours\": %g, \"other\": %g, \"ratio\": %g, \"bar\": %g, \"holds\": %s}",
                  i == 0 ? "" : ",", r.figure.c_str(), r.ours, r.other, r.ratio, r.bar, r.holds() ? "true" : "false");
    }
    std::printf("\n]\n");
  }

 private:
  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
  }

  std::vector<row> rows_;
};

}  // namespace bench
