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

# Sets look, take, seldom, state, short and full of an algorithm's file, and its head.
macro(read_algorithm name)
  read_file(${name} text)
  read_file(keep keep)
  string(REPLACE "@keep@\n" "${keep}" text "${text}")
  string(REGEX MATCH "-- state    ([a-z, ]+)" state "${text}")
  set(state "${CMAKE_MATCH_1}")
  string(REGEX MATCH "-- short    ([^\n]+)" short "${text}")
  set(short "${CMAKE_MATCH_1}")
  string(REGEX MATCH "-- full     ([^\n]+)" full "${text}")
  set(full "${CMAKE_MATCH_1}")
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
read_file(stamp stamp)
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
  set(full_alone "")
  set(full_among "")
  if(full)
    set(full_alone "local full = ${full}
if full then
  return time and time[1] .. ' ' .. time[2] .. ' ' .. full or full
end
")
    set(full_among "  reply[i + 1] = ${full}
  if reply[i + 1] then
    return go
  end
")
  endif()
  string(REPLACE "@full@\n" "${full_alone}" script "${script}")
  string(REPLACE "@state@" "${state}" script "${script}")
  string(REPLACE "@short@" "${short}" script "${script}")
  # What it uses, and no more.
  set(time "${now}")
  if(take MATCHES "stamp")
    set(time "${stamp}")
  endif()
  set(arithmetic "")
  if(look MATCHES "mul_div\\(")
    set(arithmetic "${mul_div}")
  endif()
  add_constant(${algorithm} "${head}${time}${arithmetic}${script}")
  string(APPEND looks "
function look.${algorithm}(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
${look}
  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
${take}
    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
${seldom}
    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
${full_among}  local short = not blocked and not again and ${short}
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = ${state}
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end
")
endforeach()

string(REPLACE "@looks@\n" "${looks}" joint "${all_of}")
add_constant(all_of "${stamp}${mul_div}${joint}")

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
