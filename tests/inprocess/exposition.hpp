// A strict reader of the Prometheus text exposition format 0.0.4, as a scraper and promtool would have it.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/detail/utf8.hpp>

namespace inprocess {

using labels = std::map<std::string, std::string>;

struct sample {
  std::string name;
  labels of;
  std::string written;  // the value as it stands there
};

struct family {
  std::string type;
  std::string help;
  std::vector<sample> samples;
};

// What a scrape says. Throws std::runtime_error, with the line, for what a strict reader refuses.
class exposition {
 public:
  explicit exposition(std::string_view text) {
    if (!text.empty() && text.back() != '\n') refuse("the last line does not end");
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      line_ = text.substr(0, end);
      text.remove_prefix(end + 1);
      read_line();
    }
    for (const auto& [name, one] : families_) check_family(name, one);
  }

  const std::map<std::string, family>& families() const { return families_; }

  // How many samples there are.
  std::size_t size() const { return seen_.size(); }

  // A whole number; 0 where there is no such sample.
  std::uint64_t count(const std::string& name, const labels& of) const {
    const auto found = seen_.find({name, of});
    return found == seen_.end() ? 0 : whole(found->second);
  }

  // The sum over all samples of this name that have these labels among theirs.
  std::uint64_t total(const std::string& name, const labels& some = {}) const {
    std::uint64_t sum = 0;
    for (const auto& [key, written] : seen_) {
      const auto has = [&of = key.second](const auto& label) {
        const auto found = of.find(label.first);
        return found != of.end() && found->second == label.second;
      };
      if (key.first == name && std::all_of(some.begin(), some.end(), has)) sum += whole(written);
    }
    return sum;
  }

  const std::map<std::pair<std::string, labels>, std::string>& samples() const { return seen_; }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw std::runtime_error{why + ": " + std::string{line_}}; }

  static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool digit(char c) { return c >= '0' && c <= '9'; }

  void read_line() {
    rest_ = line_;
    for (std::string_view left = line_; !left.empty();) {
      const std::size_t length = ratelimit::detail::utf8_sequence(left);
      if (length == 0 || left.front() == '\0') refuse("not UTF-8");
      left.remove_prefix(length);
    }
    if (line_.empty()) return;
    if (line_.front() == '#') {
      read_comment();
    } else {
      read_sample();
    }
  }

  void read_comment() {
    const bool help = rest_.substr(0, 7) == "# HELP ";
    if (!help && rest_.substr(0, 7) != "# TYPE ") refuse("neither HELP nor TYPE");
    rest_.remove_prefix(7);
    const std::string name = read_name();
    if (!take(' ')) refuse("no space after the name");
    if (help) {
      if (!helped_.insert(name).second) refuse("HELP twice");
      if (families_.count(name) != 0) refuse("HELP after TYPE or samples");
      for (std::size_t i = 0; i < rest_.size(); ++i)
        if (rest_[i] == '\\' && (++i == rest_.size() || (rest_[i] != '\\' && rest_[i] != 'n')))
          refuse("an unknown escape");
      helps_[name] = rest_;
      return;
    }
    static const std::set<std::string, std::less<>> types{"counter", "gauge", "histogram"};
    if (types.count(rest_) == 0) refuse("an unknown type");
    if (helped_.count(name) == 0) refuse("TYPE without HELP");
    const auto [made, added] = families_.try_emplace(name);
    if (!added) refuse("TYPE twice");
    made->second.type = rest_;
    made->second.help = helps_[name];
    current_ = name;
  }

  void read_sample() {
    sample one;
    one.name = read_name();
    if (take('{')) {
      while (!take('}')) {
        if (!one.of.empty() && !take(',')) refuse("no comma between labels");
        read_label(one.of);
      }
    }
    if (!take(' ')) refuse("no space before the value");
    one.written = rest_;
    if (one.written.empty() ||
        !std::all_of(one.written.begin(), one.written.end(), [](char c) { return digit(c) || c == '.'; }))
      refuse("a value that is no plain decimal");
    if (current_.empty()) refuse("a sample without TYPE");
    family& own = families_.at(current_);
    const std::string_view name = one.name;
    const bool plain = name == current_ && own.type != "histogram";
    const bool of_histogram = own.type == "histogram" && name.substr(0, current_.size()) == current_ &&
                              parts_of_histogram().count(name.substr(current_.size())) != 0;
    if (!plain && !of_histogram) refuse("a sample outside its family");
    if (!seen_.try_emplace({one.name, one.of}, one.written).second) refuse("the same sample twice");
    own.samples.push_back(std::move(one));
  }

  static const std::set<std::string, std::less<>>& parts_of_histogram() {
    static const std::set<std::string, std::less<>> parts{"_bucket", "_sum", "_count"};
    return parts;
  }

  std::string read_name() {
    std::size_t at = 0;
    while (at < rest_.size() && (letter(rest_[at]) || rest_[at] == ':' || (at > 0 && digit(rest_[at])))) ++at;
    if (at == 0) refuse("no metric name");
    const std::string name{rest_.substr(0, at)};
    rest_.remove_prefix(at);
    return name;
  }

  void read_label(labels& out) {
    std::size_t at = 0;
    while (at < rest_.size() && (letter(rest_[at]) || (at > 0 && digit(rest_[at])))) ++at;
    const std::string name{rest_.substr(0, at)};
    rest_.remove_prefix(at);
    if (name.empty() || name.substr(0, 2) == "__") refuse("no label name");
    if (!take('=') || !take('"')) refuse("a label without a quoted value");
    std::string value;
    while (!take('"')) {
      if (rest_.empty()) refuse("a label that does not end");
      if (take('\\')) {
        if (take('n')) {
          value += '\n';
        } else if (!rest_.empty() && (rest_.front() == '\\' || rest_.front() == '"')) {
          value += rest_.front();
          rest_.remove_prefix(1);
        } else {
          refuse("an unknown escape");
        }
      } else {
        value += rest_.front();
        rest_.remove_prefix(1);
      }
    }
    if (!out.try_emplace(name, value).second) refuse("the same label twice");
  }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::uint64_t whole(const std::string& written) const {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
    if (error != std::errc{} || end != written.data() + written.size()) {
      throw std::runtime_error{"not a whole number: " + written};
    }
    return value;
  }

  void check_family(const std::string& name, const family& one) const {
    const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
    if ((one.type == "counter") != total) throw std::runtime_error{"_total is the end of a counter's name: " + name};
    if (one.help.empty()) throw std::runtime_error{"no help: " + name};
    if (one.type == "counter")
      for (const sample& s : one.samples) whole(s.written);
    if (one.type == "histogram") check_histogram(name, one);
  }

  // One series after the other, each with its buckets in order, cumulative and up to +Inf, then _sum and _count.
  void check_histogram(const std::string& name, const family& one) const {
    std::set<labels> done;
    for (auto at = one.samples.begin(); at != one.samples.end();) {
      labels of = at->of;
      of.erase("le");
      double edge = -1;
      std::uint64_t below = 0;
      bool infinite = false;
      for (; at != one.samples.end() && at->name == name + "_bucket"; ++at) {
        labels own = at->of;
        const auto le = own.find("le");
        if (le == own.end()) throw std::runtime_error{"a bucket without le"};
        const std::string up_to = le->second;
        own.erase(le);
        if (own != of) break;
        if (infinite) throw std::runtime_error{"a bucket after +Inf"};
        infinite = up_to == "+Inf";
        if (!infinite) {
          double value = 0;
          const auto [end, error] = std::from_chars(up_to.data(), up_to.data() + up_to.size(), value);
          if (error != std::errc{} || end != up_to.data() + up_to.size() || !(value > edge))
            throw std::runtime_error{"buckets out of order at " + up_to};
          edge = value;
        }
        const std::uint64_t count = whole(at->written);
        if (count < below) throw std::runtime_error{"a bucket below the one before it: " + up_to};
        below = count;
      }
      if (!infinite) throw std::runtime_error{"no bucket +Inf"};
      if (at == one.samples.end() || at->name != name + "_sum" || at->of != of) throw std::runtime_error{"no _sum"};
      if (++at == one.samples.end() || at->name != name + "_count" || at->of != of)
        throw std::runtime_error{"no _count"};
      if (whole(at->written) != below) throw std::runtime_error{"_count is not the bucket +Inf"};
      if (!done.insert(of).second) throw std::runtime_error{"a histogram in two pieces"};
      ++at;
    }
  }

  std::string_view line_{};
  std::string_view rest_{};
  std::string current_{};
  std::set<std::string> helped_{};
  std::map<std::string, std::string> helps_{};
  std::map<std::string, family> families_{};
  std::map<std::pair<std::string, labels>, std::string> seen_{};
};

}  // namespace inprocess
