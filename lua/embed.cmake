# Writes include/ratelimit/detail/scripts.hpp from lua/*.lua: cmake -DOUT=FILE -P lua/embed.cmake
# The result is committed, so that copying include/ is enough; a test fails when the two differ.
cmake_minimum_required(VERSION 3.18)

set(here "${CMAKE_CURRENT_LIST_DIR}")
set(constants "")

function(read_part part out)
  file(READ "${here}/${part}.lua" source)
  set(${out} "${source}" PARENT_SCOPE)
endfunction()

function(add_constant name text)
  string(SHA1 sha "${text}")
  string(APPEND constants "
inline constexpr script ${name}{
    \"${name}\", \"${sha}\",
    R\"lua(${text})lua\"};
")
  set(constants "${constants}" PARENT_SCOPE)
endfunction()

# The script for one limit: its parts, one after the other, byte for byte.
macro(embed name)
  set(text "")
  foreach(part ${ARGN})
    read_part(${part} source)
    string(APPEND text "${source}")
  endforeach()
  add_constant(${name} "${text}")
endmacro()

# The script for several limits: each algorithm's file becomes a function that makes what the file defines.
macro(embed_joint name)
  set(text "")
  foreach(part now mul_div keep)
    read_part(${part} source)
    string(APPEND text "${source}")
  endforeach()
  string(APPEND text "local make = {}\n")
  foreach(part ${ARGN})
    read_part(${part} source)
    string(APPEND text "function make.${part}()\n${source}return look, take, lifetime, others\nend\n")
  endforeach()
  read_part(${name} source)
  string(APPEND text "${source}")
  add_constant(${name} "${text}")
endmacro()

embed(sliding_log now sliding_log check)
embed(compact_log now compact_log check)
embed(sliding_counter now mul_div keep sliding_counter check)
embed(token_bucket now mul_div keep token_bucket check)
embed(fixed_window now keep fixed_window check)
embed_joint(all_of sliding_log compact_log sliding_counter token_bucket fixed_window)

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
