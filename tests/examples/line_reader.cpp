// Lines of a text, however long they are and whatever is in them.
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "replay/line_reader.hpp"

namespace {

using replay::line_reader;
using namespace std::string_view_literals;

// All lines of a text; each must have its number, and at the end every byte must have been read.
std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream in{std::string{text}};
  line_reader reader{in};
  std::vector<std::string> lines;
  while (reader.next()) {
    lines.emplace_back(reader.line());
    CHECK(reader.number() == lines.size());
  }
  CHECK(reader.bytes() == text.size());
  CHECK_FALSE(reader.next());
  return lines;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a text is read line by line, whether or not the last one ends", "[line_reader]") {
  CHECK(lines_of("") == lines{});
  CHECK(lines_of("\n") == lines{""});
  CHECK(lines_of("a") == lines{"a"});
  CHECK(lines_of("a\n") == lines{"a"});
  CHECK(lines_of("a\nb") == lines{"a", "b"});
  CHECK(lines_of("a\n\n\nb\n") == lines{"a", "", "", "b"});
}

TEST_CASE("a carriage return and a NUL are bytes like others", "[line_reader]") {
  CHECK(lines_of("a\r\nb\r\n") == lines{"a\r", "b\r"});
  CHECK(lines_of("a\rb\n") == lines{"a\rb"});
  CHECK(lines_of("a\0b\n\0\n\0"sv) == lines{std::string{"a\0b"sv}, std::string(1, '\0'), std::string(1, '\0')});
}

TEST_CASE("a line is cut where it gets too long, and the next one is whole", "[line_reader]") {
  const std::string longest(line_reader::longest, 'x');
  const std::string begin = "before\n", end = "\nafter\n";
  for (const std::size_t more : {0u, 1u, 2u, 65'536u, 200'000u}) {
    CAPTURE(more);
    CHECK(lines_of(begin + longest + std::string(more, 'y') + end) == lines{"before", longest, "after"});
    CHECK(lines_of(longest + std::string(more, 'y')) == lines{longest});
    CHECK(lines_of(longest + std::string(more, 'y') + "\n") == lines{longest});
  }
  const std::string shorter(line_reader::longest - 1, 'x');
  CHECK(lines_of(shorter + end) == lines{shorter, "after"});
  CHECK(lines_of(longest + "\n" + longest + "y\n\n" + longest) == lines{longest, longest, "", longest});
}

TEST_CASE("bytes count what was read so far, line ends and what was cut included", "[line_reader]") {
  const std::string cut(line_reader::longest + 10, 'x');
  std::istringstream in{"ab\n" + cut + "\n\nc"};
  line_reader reader{in};
  CHECK(reader.bytes() == 0);
  std::vector<std::pair<std::uint64_t, std::size_t>> seen;  // bytes so far, length of the line
  while (reader.next()) seen.emplace_back(reader.bytes(), reader.line().size());
  CHECK((seen ==
         decltype(seen){{3, 2}, {3 + cut.size() + 1, line_reader::longest}, {5 + cut.size(), 0}, {6 + cut.size(), 1}}));
}

TEST_CASE("a stream that breaks ends the text", "[line_reader]") {
  std::istringstream in{"a\nb\n"};
  line_reader reader{in};
  CHECK(reader.next());
  CHECK(reader.line() == "a");
  in.setstate(std::ios::badbit);
  CHECK_FALSE(reader.next());
}
