// The scripts' own multiplication: exact where a double is not, against 128-bit integers.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ratelimit/detail/scripts.hpp>

#include "catch.hpp"
#include "reference.hpp"
#include "sequence.hpp"
#include "support/server.hpp"

using namespace property;
using reference::wide;

namespace {

constexpr count exact = count{1} << 53;
constexpr count most_a = exact - 1;
constexpr count most_b = count{1} << 51;
constexpr count most_c = (count{1} << 49) - 1;

struct operands {
  count a, b, c;
};

// The function as it stands in a script, and around it one that works out many products in one command.
std::string program() {
  const std::string_view script = ratelimit::detail::scripts::sliding_counter.source;
  const std::size_t begin = script.find("local function mul_div(");
  REQUIRE(begin != std::string_view::npos);
  const std::size_t end = script.find("\nend\n", begin);
  REQUIRE(end != std::string_view::npos);
  return std::string{script.substr(begin, end + 5 - begin)} + R"(
local answers = {}
for i = 1, #ARGV, 3 do
  local quotient, rest = mul_div(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  answers[#answers + 1] = string.format('%.0f %.0f', quotient, rest)
end
return answers
)";
}

// Any size as likely as any other, and often next to a power of two.
count operand(dice& random, count low, count high) {
  const count value = random.spread(low, high);
  if (!random.one_in(4)) return value;
  count power = 1;
  while (power <= value / 2) power *= 2;
  return std::clamp(power + random.between(-2, 2), low, high);
}

operands choose(dice& random) {
  operands o{operand(random, 0, most_a), operand(random, 0, most_b), operand(random, 1, most_c)};
  if (random.one_in(3)) {  // the quotient next to a whole number
    const count quotient = random.spread(0, most_a);
    const wide b = (wide{quotient} * o.c) / std::max<count>(o.a, 1) + random.between(-1, 1);
    if (b >= 0 && b <= most_b) o.b = static_cast<count>(b);
  } else if (random.one_in(8)) {  // no remainder
    o.b = o.c <= most_b ? o.c : most_b;
  }
  return o;
}

}  // namespace

TEST_CASE("mul_div in Lua is exact", "[property]") {
  support::server server;
  const std::string script = program();
  const std::string name = server.command({"SCRIPT", "LOAD", script}).text;
  dice random{seed_of(0)};
  for (count batch = 0; batch < (sequences() + 19) / 20; ++batch) {
    std::vector<operands> asked;
    for (const count a : {count{0}, count{1}, most_a}) {
      for (const count b : {count{0}, count{1}, most_b})
        for (const count c : {count{1}, count{2}, most_c}) asked.push_back({a, b, c});
    }
    while (asked.size() < 500) asked.push_back(choose(random));

    std::vector<std::string> command{"EVALSHA", name, "0"};
    for (const operands& o : asked)
      for (const count value : {o.a, o.b, o.c}) command.push_back(std::to_string(value));
    const support::reply answers = server.command(command);
    REQUIRE(answers.items.size() == asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto [a, b, c] = asked[i];
      const wide quotient = wide{a} * b / c;
      const std::string& got = answers.items[i].text;
      const std::string call = std::to_string(a) + " * " + std::to_string(b) + " / " + std::to_string(c);
      if (quotient < exact) {
        const auto rest = static_cast<count>(wide{a} * b % c);
        const std::string wanted = std::to_string(static_cast<count>(quotient)) + " " + std::to_string(rest);
        if (got != wanted) FAIL(call + " is " + wanted + ", not " + got);
      } else {
        // Rounded, and never to less than what every limit is below.
        const double rounded = std::stod(got);
        const double error = rounded / static_cast<double>(quotient) - 1;
        if (rounded < static_cast<double>(exact) || error > 1e-15 || error < -1e-15) FAIL(call + " is about " + got);
      }
    }
  }
}
