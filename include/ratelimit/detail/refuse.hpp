// The one form of a refused option's text.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ratelimit::detail {

// Throws std::invalid_argument: "ratelimit: <option>: <value> <why>".
[[noreturn]] inline void refuse(std::string_view option, std::string_view value, std::string_view why) {
  std::string text{"ratelimit: "};
  throw std::invalid_argument{text.append(option).append(": ").append(value).append(" ").append(why)};
}

}  // namespace ratelimit::detail
