// A line on the terminal while a long log is read.
#pragma once

#include <unistd.h>

#include <algorithm>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

namespace replay {

// Prints nothing when standard error is no terminal, and nothing in the first half second.
class progress {
 public:
  // `size`: of the log in bytes; 0 when it is not known.
  explicit progress(std::uint64_t size) : size_{size}, due_{clock::now() + std::chrono::milliseconds{500}} {}

  ~progress() {
    if (shown_) std::cerr << '\r' << std::string(width, ' ') << '\r' << std::flush;
  }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void tell(std::uint64_t lines, std::uint64_t bytes) {
    if (!terminal_ || lines % 1024 != 0 || clock::now() < due_) return;
    std::string text = std::to_string(lines) + " lines";
    if (size_ > 0) text += ", " + std::to_string(std::min<std::uint64_t>(100, bytes * 100 / size_)) + "%";
    text.resize(width, ' ');
    std::cerr << '\r' << text << std::flush;
    shown_ = true;
    due_ = clock::now() + std::chrono::milliseconds{200};
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t width = 40;

  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::uint64_t size_;
  clock::time_point due_;
};

}  // namespace replay
