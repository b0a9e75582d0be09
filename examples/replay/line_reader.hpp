// Reads a text line by line in bounded memory, whatever is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <string_view>
#include <vector>

namespace replay {

// A line longer than `longest` bytes is cut there: a file without line ends must not fill the memory. NUL bytes are
// bytes like others. The last line need not end.
class line_reader {
 public:
  static constexpr std::size_t longest = 64 * 1024;

  explicit line_reader(std::istream& in) : in_{in}, buffer_(longest + 1) {}

  // False at the end of the text. What line() views is valid until the next call.
  bool next() {
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    const auto read = static_cast<std::size_t>(in_.gcount());
    bytes_ += read;
    if (in_.bad() || (in_.eof() && read == 0)) return false;
    std::size_t length = read;
    if (in_.fail()) {  // the buffer is full before the line's end
      in_.clear();
      in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      bytes_ += static_cast<std::uint64_t>(in_.gcount());
    } else if (!in_.eof()) {
      --length;  // the '\n' is counted, not stored
    }
    line_ = {buffer_.data(), length};
    ++number_;
    return true;
  }

  std::string_view line() const noexcept { return line_; }
  std::uint64_t number() const noexcept { return number_; }  // of this line; the first is 1
  std::uint64_t bytes() const noexcept { return bytes_; }    // read so far

 private:
  std::istream& in_;
  std::vector<char> buffer_;
  std::string_view line_;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace replay
