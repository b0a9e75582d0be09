# Writes include/ratelimit/detail/scripts.hpp from lua/*.lua: cmake -DOUT=FILE -P lua/embed.cmake
# The result is committed, so that copying include/ is enough; a test fails when the two differ.
#
# An algorithm's file has parts, each begun by a line "-- @name", and names the variables of its state. They are put into
# check.lua for one limit, and into all_of.lua for several, where a line is "@name@": one file, two scripts, and no
# function is made on the way of a single check.
cmake_minimum_required(VERSION 3.18)

set(here "${CMAKE_CURRENT_LIST_DIR}")
set(constants "")

function(read_file name out)
  file(READ "${here}/${name}.lua" text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Sets look, take, seldom and state of an algorithm's file, and its head.
macro(read_algorithm name)
  read_file(${name} text)
  read_file(keep keep)
  string(REPLACE "@keep@\n" "${keep}" text "${text}")
  string(REGEX MATCH "-- state    ([a-z, ]+)" state "${text}")
  set(state "${CMAKE_MATCH_1}")
  string(FIND "${text}" "-- @look\n" look_at)
  string(FIND "${text}" "-- @take\n" take_at)
  string(FIND "${text}" "-- @seldom\n" seldom_at)
  string(SUBSTRING "${text}" 0 ${look_at} head)
  math(EXPR length "${take_at} - ${look_at}")
  string(SUBSTRING "${text}" ${look_at} ${length} look)
  math(EXPR length "${seldom_at} - ${take_at}")
  string(SUBSTRING "${text}" ${take_at} ${length} take)
  string(SUBSTRING "${text}" ${seldom_at} -1 seldom)
endmacro()

macro(add_constant name text)
  string(SHA1 sha "${text}")
  string(APPEND constants "
inline constexpr script ${name}{
    \"${name}\", \"${sha}\",
    R\"lua(${text})lua\"};
")
endmacro()

read_file(now now)
read_file(mul_div mul_div)
read_file(check check)
read_file(all_of all_of)
set(looks "")

foreach(algorithm sliding_log compact_log sliding_counter token_bucket fixed_window)
  read_algorithm(${algorithm})
  set(script "${check}")
  foreach(part look take seldom)
    string(REPLACE "@${part}@\n" "${${part}}" script "${script}")
  endforeach()
  string(REPLACE "@state@" "${state}" script "${script}")
  string(FIND "${look}" "mul_div(" uses_mul_div)
  if(uses_mul_div EQUAL -1)
    add_constant(${algorithm} "${head}${now}${script}")
  else()
    add_constant(${algorithm} "${head}${now}${mul_div}${script}")
  endif()
  string(APPEND looks "
function look.${algorithm}(key, limit, span, refill, cost, op)
  local window = span + 0
${look}
  local part = {fits = fits, blocked = blocked}
  function part.take()
${take}
    part.blocked = nil
  end
  function part.seldom()
${seldom}
    return lifetime, refund
  end
  function part.state()
    return ${state}
  end
  return part
end
")
endforeach()

string(REPLACE "@looks@\n" "${looks}" joint "${all_of}")
add_constant(all_of "${now}${mul_div}${joint}")

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
