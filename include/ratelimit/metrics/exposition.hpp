// Writes the Prometheus text exposition format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <ratelimit/detail/utf8.hpp>

namespace ratelimit::detail {

// Text that may stand in a label: each byte outside well-formed UTF-8 becomes U+FFFD; so does NUL, at which some
// parsers end. Two texts may become one.
inline std::string label_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = text.front() == '\0' ? 0 : utf8_sequence(text);
    out += length == 0 ? std::string_view{"\xEF\xBF\xBD"} : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

// Nothing in it depends on the locale.
class exposition {
 public:
  struct label {
    std::string_view name;
    std::string_view value;  // a label_text
  };
  using labels = std::initializer_list<label>;

  // Once for each name, before its samples. `help` holds neither a backslash nor a line feed.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    text_.append("# HELP ").append(name).append(1, ' ').append(help).append(1, '\n');
    text_.append("# TYPE ").append(name).append(1, ' ').append(type).append(1, '\n');
  }

  void sample(std::string_view name, labels of, std::uint64_t value) { line(name, of, std::to_string(value)); }

  // In seconds, exact.
  void sample(std::string_view name, labels of, std::chrono::nanoseconds value) {
    constexpr std::int64_t second = 1'000'000'000;
    const std::string fraction = std::to_string(value.count() % second);
    line(name, of, std::to_string(value.count() / second) + "." + std::string(9 - fraction.size(), '0') + fraction);
  }

  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view name, labels of, std::string_view value) {
    text_.append(name);
    char before = '{';
    for (const label& l : of) {
      text_.append(1, before).append(l.name).append("=\"");
      for (const char c : l.value) {
        if (c == '\\' || c == '"' || c == '\n') text_ += '\\';
        text_ += c == '\n' ? 'n' : c;
      }
      text_ += '"';
      before = ',';
    }
    text_.append("} ").append(value).append(1, '\n');
  }

  std::string text_;
};

}  // namespace ratelimit::detail
