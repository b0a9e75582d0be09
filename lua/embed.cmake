# Writes include/ratelimit/detail/scripts.hpp from lua/*.lua: cmake -DOUT=FILE -P lua/embed.cmake
# The result is committed, so that copying include/ is enough; a test fails when the two differ.
cmake_minimum_required(VERSION 3.18)

set(here "${CMAKE_CURRENT_LIST_DIR}")
set(constants "")

# A script is its parts, one after the other, byte for byte.
function(embed name)
  set(text "")
  foreach(part IN LISTS ARGN)
    file(READ "${here}/${part}.lua" source)
    string(APPEND text "${source}")
  endforeach()
  string(SHA1 sha "${text}")
  string(APPEND constants "
inline constexpr script ${name}{
    \"${name}\", \"${sha}\",
    R\"lua(${text})lua\"};
")
  set(constants "${constants}" PARENT_SCOPE)
endfunction()

embed(sliding_log sliding_log check)
embed(sliding_counter mul_div sliding_counter check)
embed(token_bucket mul_div token_bucket check)
embed(fixed_window fixed_window check)

file(CONFIGURE OUTPUT "${OUT}" CONTENT "// Generated from lua/ by lua/embed.cmake: change those files, then build the target ratelimit_scripts.
#pragma once

#include <string_view>

namespace ratelimit::detail {

struct script {
  std::string_view name;
  std::string_view sha1;  // of source, in lower-case hexadecimal, as EVALSHA takes it
  std::string_view source;
};

namespace scripts {
@constants@
}  // namespace scripts

}  // namespace ratelimit::detail
" @ONLY)
