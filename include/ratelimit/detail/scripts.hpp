// Generated from lua/ by lua/embed.cmake: change those files, then build the target ratelimit_scripts.
#pragma once

#include <string_view>

namespace ratelimit::detail {

struct script {
  std::string_view name;
  std::string_view sha1;  // of source, in lower-case hexadecimal, as EVALSHA takes it
  std::string_view source;
};

namespace scripts {

inline constexpr script sliding_log{
    "sliding_log", "1a3b8e251c7e1caf2acf4e357b53044c3f2dda1e",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: five big-endian doubles:
--          the units taken before it, its cost, its time, and of the oldest entry in force when it was added the units
--          taken before that one and its time. A block is one more member, "block:" and the time it ends, with the score
--          +inf.
-- reply    used, the time of the entry that must go for remaining to grow; and, where the call did not count, the newest
--          entry's time, the time of the entry that must go for the call to pass
--
-- The units taken before each entry make the units in force a difference of two entries, whatever the costs, and the
-- newest member tells both as long as nothing has left the window. A key's time does not run backwards: an entry is
-- never put before the newest one, so members and scores are in one order.
local function newest_of(key)
  local newest = redis.call('ZRANGE', key, '-1', '-1')[1]
  if newest and #newest ~= 40 then
    return redis.call('ZRANGE', key, '-2', '-2')[1], tonumber(string.sub(newest, 7))
  end
  return newest
end

-- The time of the entry that holds the units-th unit in force, the first of which has `first` units before it.
local function time_of(key, edge, first, units)
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCOUNT', key, '-inf', '(inf'), low + units) - 1 -- no entry holds less than a unit
  while true do
    local middle = math.floor((low + high) / 2)
    local start, held, time = struct.unpack('>ddd', redis.call('ZRANGE', key, middle, middle)[1])
    if low == high then
      return time
    elseif start + held - first >= units then
      high = middle
    else
      low = middle + 1
    end
  end
end

-- a: used, b: the time for remaining to grow, c: the newest time, d: the time for the call to pass, e: units ever taken,
-- f: whether the key holds what is out of the window
local function look(key, cost, limit, window, _, op)
  local newest, blocked = newest_of(key)
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now, 0, blocked
  end
  local start, held, last, first, oldest = struct.unpack('>ddddd', newest)
  local edge = (now > last and now or last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, 0, true
  end
  local stale = oldest <= edge
  if stale then
    local found = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'LIMIT', '0', '1')[1]
    local _
    first, _, oldest = struct.unpack('>ddd', found)
  end
  local used = start + held - first
  local fits = cost <= limit - used
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    local units = used - limit + cost
    passes = units == 1 and oldest or time_of(key, edge, first, units)
  end
  if used > limit then
    oldest = time_of(key, edge, first, used - limit + 1)
  end
  return fits and open, blocked, used, oldest, last, passes, start + held, stale
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(_, window, _, blocked, used, _, newest)
  local life = 0
  if used > 0 then
    life = newest > now and window or newest + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, blocked, used, oldest, newest, _, taken, stale)
  local time, score = now, stamp
  if used == 0 then
    if stale then
      redis.call('DEL', key) -- nothing in it is in force
    end
    oldest, taken = now, 0
  else
    if newest > now then
      time, score = newest, string.format('%.0f', newest)
    end
    if stale then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
    end
    if blocked then
      redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf') -- it is over
    end
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local base = taken - used
      local all = redis.call('ZRANGE', key, '0', '-1')
      redis.call('DEL', key)
      for _, member in ipairs(all) do
        local start, held, was, first, before = struct.unpack('>ddddd', member)
        redis.call('ZADD', key, was, struct.pack('>ddddd', start - base, held, was, first - base, before))
      end
      taken = used
    end
  end
  redis.call('ZADD', key, score, struct.pack('>ddddd', taken, cost, time, taken - used, oldest))
  redis.call('PEXPIRE', key, (window + -window % 1000) / 1000)
  return used + cost, oldest
end

local function others()
  local function refund(key, cost, limit, window, _, blocked, taken_at, used, grows, newest, passes, taken)
    local edge = math.max(now, newest) - window
    if used == 0 or (taken_at and taken_at <= edge) then
      return used, grows, newest, passes -- nothing to give back, or what is in force are other calls' units
    end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
    local first, _, oldest = struct.unpack('>ddd', redis.call('ZRANGE', key, '0', '0')[1])
    while cost > 0 and used > 0 do
      local member = newest_of(key)
      local start, held, time = struct.unpack('>ddd', member)
      local given = math.min(cost, held)
      redis.call('ZREM', key, member)
      cost, used = cost - given, used - given
      if given == held and used > 0 then
        member = newest_of(key)
        start, held, time = struct.unpack('>ddd', member)
        given = 0
        redis.call('ZREM', key, member)
      end
      if used > 0 then
        -- the newest again, with what is in force now
        redis.call('ZADD', key, time, struct.pack('>ddddd', start, held - given, time, first, oldest))
        newest = time
      end
    end
    newest = used > 0 and newest or now
    local grows_at = used > 0 and time_of(key, edge, first, math.max(used - limit + 1, 1)) or now
    -- Last: a lifetime of a millisecond may be over at once, and the key gone.
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows_at, newest, now
  end

  local function block(key, _, window, _, blocked, used, grows, newest)
    redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
    redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  return refund, block
end
-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
)lua"};

inline constexpr script compact_log{
    "compact_log", "d5ba377d1ed540933af164bac54bba5f7ac8fc10",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
--
-- KEYS[1]  a list, oldest first, one element per admitted call: its time (microseconds), an integer; from the first call
--          on whose cost is not 1, "time:units taken before it:cost". A block is one more element at the end, "block:"
--          and the time it ends.
-- reply    used, the time of the entry that must go for remaining to grow; and, where the call did not count, the newest
--          entry's time, the time of the entry that must go for the call to pass
--
-- As long as every cost is 1, an entry's place in the list counts the units. A key's time does not run backwards: an
-- entry is never put before the newest one, so whatever is looked for is found by halving.
local function entry(element)
  local time = tonumber(element)
  if time then
    return time, nil, 1
  end
  local at, start, cost = string.match(element, '^(-?%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(start), tonumber(cost)
end

-- The newest entry, and when a block ends.
local function newest_of(key)
  local newest = redis.call('LINDEX', key, '-1')
  if newest and string.sub(newest, 1, 1) == 'b' then
    return redis.call('LINDEX', key, '-2'), tonumber(string.sub(newest, 7))
  end
  return newest
end

-- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
local function search(key, low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(redis.call('LINDEX', key, middle), middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The time of the entry that holds the units-th unit in force, the first of which has `start` units before it and stands
-- at the index `first`.
local function time_of(key, first, start, size, single, units)
  local index = first + units - 1
  if not single then
    index = search(key, first, size - 1, function(element, at)
      local _, before, cost = entry(element)
      return (before or start + at - first) + cost - start >= units
    end)
  end
  return (entry(redis.call('LINDEX', key, index)))
end

-- The entries in force of which the oldest does not stand first, or some carry a count: the index of the oldest, its
-- time, and the units taken before it.
local function oldest_of(key, edge, size, counted)
  local first = search(key, 0, size - 1, function(element) return entry(element) > edge end)
  local time, start = entry(redis.call('LINDEX', key, first))
  if counted and not start then
    -- the entries before the first that carries a count
    local from = search(key, first + 1, size - 1, function(element) return not tonumber(element) end)
    local _, before = entry(redis.call('LINDEX', key, from))
    start = before - (from - first)
  end
  return first, time, start or first
end

-- a: used, b: the time for remaining to grow, c: the newest time, d: the time for the call to pass, e: units ever taken
-- (nil while each entry counts for one), f: the index of the oldest entry in force (-1: the key holds none)
local function look(key, cost, limit, window, _, op)
  local newest, blocked = newest_of(key)
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now, nil, blocked and -1 or 0
  end
  local last, counted, held = tonumber(newest)
  if not last then
    last, counted, held = entry(newest)
  end
  local edge = (now > last and now or last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, nil, -1
  end
  local size = redis.call('LLEN', key) - (blocked and 1 or 0)
  local first, oldest, start = 0, tonumber(redis.call('LINDEX', key, '0')), 0
  if counted or oldest <= edge then
    first, oldest, start = oldest_of(key, edge, size, counted)
  end
  local taken = counted and counted + held
  local used = (taken or size) - start
  local fits = cost <= limit - used
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    local units = used - limit + cost
    passes = units == 1 and oldest or time_of(key, first, start, size, not counted, units)
  end
  if used > limit then
    oldest = time_of(key, first, start, size, not counted, used - limit + 1)
  end
  return fits and open, blocked, used, oldest, last, passes, taken, first
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(_, window, _, blocked, used, _, newest)
  local life = 0
  if used > 0 then
    life = newest > now and window or newest + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, blocked, used, oldest, newest, _, taken, first)
  local element = newest > now and string.format('%.0f', newest) or stamp
  if used == 0 then
    if first < 0 then
      redis.call('DEL', key) -- nothing in it is in force
    end
    oldest, taken = now, nil
  else
    if first > 0 then
      redis.call('LTRIM', key, first, -1)
    end
    if blocked then
      redis.call('RPOP', key) -- it is over
    end
  end
  if taken or cost ~= 1 then
    taken = taken or used
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local all = redis.call('LRANGE', key, '0', '-1')
      redis.call('DEL', key)
      for _, was in ipairs(all) do
        local time, start, held = entry(was)
        redis.call('RPUSH', key, start and string.format('%.0f:%.0f:%.0f', time, start - (taken - used), held) or was)
      end
      taken = used
    end
    element = string.format('%s:%.0f:%.0f', element, taken, cost)
  end
  redis.call('RPUSH', key, element)
  redis.call('PEXPIRE', key, (window + -window % 1000) / 1000)
  return used + cost, oldest
end

local function others()
  local function refund(key, cost, limit, window, _, blocked, taken_at, used, grows, newest, passes, taken, first)
    local edge = math.max(now, newest) - window
    if used == 0 or (taken_at and taken_at <= edge) then
      return used, grows, newest, passes -- nothing to give back, or what is in force are other calls' units
    end
    redis.call('LTRIM', key, first, blocked and -2 or -1)
    cost = math.min(cost, used)
    used = used - cost
    if not taken then
      redis.call('LTRIM', key, '0', -1 - cost)
    end
    while taken and cost > 0 do
      local time, start, held = entry(redis.call('RPOP', key))
      if cost < held then
        redis.call('RPUSH', key, string.format('%.0f:%.0f:%.0f', time, start, held - cost))
      end
      cost = cost - math.min(cost, held)
    end
    newest, grows = now, now
    if used > 0 then
      local size, last = redis.call('LLEN', key), newest_of(key)
      local _, counted = entry(last)
      newest = entry(last)
      local _, _, start = oldest_of(key, edge, size, counted)
      grows = time_of(key, 0, start, size, not counted, math.max(used - limit + 1, 1))
    end
    if blocked then
      redis.call('RPUSH', key, string.format('block:%.0f', blocked))
    end
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  local function block(key, _, window, _, blocked, used, grows, newest)
    local _, before = newest_of(key)
    if before then
      redis.call('RPOP', key)
    end
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  return refund, block
end
-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
)lua"};

inline constexpr script sliding_counter{
    "sliding_counter", "efe736955b7d74c23a65a540e7bd6dd31e87053d",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
-- For whole numbers 0 <= a < 2^53, 0 <= b <= 2^51, 0 < c < 2^49. A quotient of 2^53 or more is rounded.
local function mul_div(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % c
    return (product - rest) / c, rest
  end
  local rest = a % c
  local whole = (a - rest) / c * b
  -- rest * b / c < b: the float is off by one at most, and the remainder, worked out in parts of 26 bits, tells.
  local quotient = math.floor(rest * b / c)
  local a0, b0, c0, q0 = rest % 67108864, b % 67108864, c % 67108864, quotient % 67108864
  local a1, b1, c1, q1 = (rest - a0) / 67108864, (b - b0) / 67108864, (c - c0) / 67108864, (quotient - q0) / 67108864
  local upper = (a1 * b1 - q1 * c1) * 67108864 + (a1 * b0 - q1 * c0) + (a0 * b1 - q0 * c1)
  rest = upper * 67108864 + (a0 * b0 - q0 * c0)
  if rest < 0 then
    return whole + quotient - 1, rest + c
  elseif rest >= c then
    return whole + quotient + 1, rest - c
  end
  return whole + quotient, rest
end
-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(key, blocked, value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- reply    start, current, previous
local function look(key, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  first = first - first % window
  if current + previous > 0 and first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local used = current
  if previous > 0 then
    used = used + mul_div(previous, now > start and window - (now - start) or window, window)
  end
  return cost <= limit - used and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(_, window, _, blocked, start, current, previous)
  local life = 0
  if current + previous > 0 then
    life = 2 * window + (start > now and 0 or start - now)
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, _, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous),
    'PX', lifetime(nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function others()
  local function block(key, _, window, _, blocked, start, current, previous)
    keep(key, blocked, struct.pack('<ddd', start, current, previous),
      lifetime(nil, window, nil, blocked, start, current, previous))
    return start, current, previous
  end

  local function refund(key, cost, _, window, _, blocked, taken, start, current, previous)
    local before = taken and taken < start and start <= now -- counted before this window began
    if before and taken >= start - window then
      cost = math.min(cost, previous)
      previous = previous - cost
    elseif before then
      cost = 0 -- in a window that no longer weighs
    else
      cost = math.min(cost, current)
      current = current - cost
    end
    if cost == 0 then
      return start, current, previous
    end
    return block(key, nil, window, nil, blocked, start, current, previous)
  end

  return refund, block
end
-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
)lua"};

inline constexpr script token_bucket{
    "token_bucket", "9994a6cc464bf7c0be9f0761d4b4156725010309",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
-- For whole numbers 0 <= a < 2^53, 0 <= b <= 2^51, 0 < c < 2^49. A quotient of 2^53 or more is rounded.
local function mul_div(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % c
    return (product - rest) / c, rest
  end
  local rest = a % c
  local whole = (a - rest) / c * b
  -- rest * b / c < b: the float is off by one at most, and the remainder, worked out in parts of 26 bits, tells.
  local quotient = math.floor(rest * b / c)
  local a0, b0, c0, q0 = rest % 67108864, b % 67108864, c % 67108864, quotient % 67108864
  local a1, b1, c1, q1 = (rest - a0) / 67108864, (b - b0) / 67108864, (c - c0) / 67108864, (quotient - q0) / 67108864
  local upper = (a1 * b1 - q1 * c1) * 67108864 + (a1 * b0 - q1 * c0) + (a0 * b1 - q0 * c1)
  rest = upper * 67108864 + (a0 * b0 - q0 * c0)
  if rest < 0 then
    return whole + quotient - 1, rest + c
  elseif rest >= c then
    return whole + quotient + 1, rest - c
  end
  return whole + quotient, rest
end
-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(key, blocked, value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds); and a block (keep.lua). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, limit, 0, now
  end
  local tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  tokens = tokens > 0 and tokens or 0
  fraction = fraction < window and fraction or window - 1
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = now - last < 2251799813685248 and now - last or 2251799813685248
    local gained, more = mul_div(refill + 0, passed, window)
    fraction = fraction + more
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, last + passed
  end
  if tokens >= limit then
    tokens, fraction, last = limit, 0, now
  end
  return cost <= tokens and not (blocked and now < blocked), blocked, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(limit, window, refill, blocked, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end

local function take(key, cost, limit, window, refill, _, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(limit, window, refill, nil, tokens, fraction))
  return tokens, fraction, last
end

local function others()
  local function block(key, limit, window, refill, blocked, tokens, fraction, last)
    keep(key, blocked, struct.pack('<ddd', tokens, fraction, last),
      lifetime(limit, window, refill, blocked, tokens, fraction))
    return tokens, fraction, last
  end

  local function refund(key, cost, limit, window, refill, blocked, _, tokens, fraction, last)
    if tokens == limit then
      return tokens, fraction, last
    end
    tokens = math.min(tokens + cost, limit)
    if tokens == limit then
      fraction = 0
    end
    return block(key, limit, window, refill, blocked, tokens, fraction, last)
  end

  return refund, block
end
-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
)lua"};

inline constexpr script fixed_window{
    "fixed_window", "9fc453a2f47dfc2c9f894b02562a49b4a0d7887c",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(key, blocked, value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string of two little-endian doubles: the window's start (microseconds), the units taken in it; and a block
--          (keep.lua)
-- reply    start, count
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.
local function look(key, cost, limit, window)
  local start, count, blocked = now - now % window, 0, nil
  local stored = redis.call('GET', key)
  if stored then
    local first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
    first = first - first % window
    if taken > 0 and first >= start then
      start, count = first, taken
    end
  end
  return cost <= limit - count and not (blocked and now < blocked), blocked, start, count
end

local function lifetime(_, window, _, blocked, start, count)
  local life = 0
  if count > 0 then
    life = start > now and window or start + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, _, start, count)
  count = count + cost
  redis.call('SET', key, struct.pack('<dd', start, count), 'PX', lifetime(nil, window, nil, nil, start, count))
  return start, count
end

local function others()
  local function block(key, _, window, _, blocked, start, count)
    keep(key, blocked, struct.pack('<dd', start, count), lifetime(nil, window, nil, blocked, start, count))
    return start, count
  end

  local function refund(key, cost, _, window, _, blocked, taken, start, count)
    if count == 0 or (taken and taken < start and start <= now) then
      return start, count -- nothing to give back, or the window that took it is over
    end
    return block(key, nil, window, nil, blocked, start, count - math.min(cost, count))
  end

  return refund, block
end
-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
)lua"};

inline constexpr script all_of{
    "all_of", "ab6d09822d04538c9d7239894d8f0ea68c917ae2",
    R"lua(-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
-- For whole numbers 0 <= a < 2^53, 0 <= b <= 2^51, 0 < c < 2^49. A quotient of 2^53 or more is rounded.
local function mul_div(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % c
    return (product - rest) / c, rest
  end
  local rest = a % c
  local whole = (a - rest) / c * b
  -- rest * b / c < b: the float is off by one at most, and the remainder, worked out in parts of 26 bits, tells.
  local quotient = math.floor(rest * b / c)
  local a0, b0, c0, q0 = rest % 67108864, b % 67108864, c % 67108864, quotient % 67108864
  local a1, b1, c1, q1 = (rest - a0) / 67108864, (b - b0) / 67108864, (c - c0) / 67108864, (quotient - q0) / 67108864
  local upper = (a1 * b1 - q1 * c1) * 67108864 + (a1 * b0 - q1 * c0) + (a0 * b1 - q0 * c1)
  rest = upper * 67108864 + (a0 * b0 - q0 * c0)
  if rest < 0 then
    return whole + quotient - 1, rest + c
  elseif rest >= c then
    return whole + quotient + 1, rest - c
  end
  return whole + quotient, rest
end
-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(key, blocked, value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local make = {}
function make.sliding_log()
-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: five big-endian doubles:
--          the units taken before it, its cost, its time, and of the oldest entry in force when it was added the units
--          taken before that one and its time. A block is one more member, "block:" and the time it ends, with the score
--          +inf.
-- reply    used, the time of the entry that must go for remaining to grow; and, where the call did not count, the newest
--          entry's time, the time of the entry that must go for the call to pass
--
-- The units taken before each entry make the units in force a difference of two entries, whatever the costs, and the
-- newest member tells both as long as nothing has left the window. A key's time does not run backwards: an entry is
-- never put before the newest one, so members and scores are in one order.
local function newest_of(key)
  local newest = redis.call('ZRANGE', key, '-1', '-1')[1]
  if newest and #newest ~= 40 then
    return redis.call('ZRANGE', key, '-2', '-2')[1], tonumber(string.sub(newest, 7))
  end
  return newest
end

-- The time of the entry that holds the units-th unit in force, the first of which has `first` units before it.
local function time_of(key, edge, first, units)
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCOUNT', key, '-inf', '(inf'), low + units) - 1 -- no entry holds less than a unit
  while true do
    local middle = math.floor((low + high) / 2)
    local start, held, time = struct.unpack('>ddd', redis.call('ZRANGE', key, middle, middle)[1])
    if low == high then
      return time
    elseif start + held - first >= units then
      high = middle
    else
      low = middle + 1
    end
  end
end

-- a: used, b: the time for remaining to grow, c: the newest time, d: the time for the call to pass, e: units ever taken,
-- f: whether the key holds what is out of the window
local function look(key, cost, limit, window, _, op)
  local newest, blocked = newest_of(key)
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now, 0, blocked
  end
  local start, held, last, first, oldest = struct.unpack('>ddddd', newest)
  local edge = (now > last and now or last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, 0, true
  end
  local stale = oldest <= edge
  if stale then
    local found = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'LIMIT', '0', '1')[1]
    local _
    first, _, oldest = struct.unpack('>ddd', found)
  end
  local used = start + held - first
  local fits = cost <= limit - used
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    local units = used - limit + cost
    passes = units == 1 and oldest or time_of(key, edge, first, units)
  end
  if used > limit then
    oldest = time_of(key, edge, first, used - limit + 1)
  end
  return fits and open, blocked, used, oldest, last, passes, start + held, stale
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(_, window, _, blocked, used, _, newest)
  local life = 0
  if used > 0 then
    life = newest > now and window or newest + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, blocked, used, oldest, newest, _, taken, stale)
  local time, score = now, stamp
  if used == 0 then
    if stale then
      redis.call('DEL', key) -- nothing in it is in force
    end
    oldest, taken = now, 0
  else
    if newest > now then
      time, score = newest, string.format('%.0f', newest)
    end
    if stale then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
    end
    if blocked then
      redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf') -- it is over
    end
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local base = taken - used
      local all = redis.call('ZRANGE', key, '0', '-1')
      redis.call('DEL', key)
      for _, member in ipairs(all) do
        local start, held, was, first, before = struct.unpack('>ddddd', member)
        redis.call('ZADD', key, was, struct.pack('>ddddd', start - base, held, was, first - base, before))
      end
      taken = used
    end
  end
  redis.call('ZADD', key, score, struct.pack('>ddddd', taken, cost, time, taken - used, oldest))
  redis.call('PEXPIRE', key, (window + -window % 1000) / 1000)
  return used + cost, oldest
end

local function others()
  local function refund(key, cost, limit, window, _, blocked, taken_at, used, grows, newest, passes, taken)
    local edge = math.max(now, newest) - window
    if used == 0 or (taken_at and taken_at <= edge) then
      return used, grows, newest, passes -- nothing to give back, or what is in force are other calls' units
    end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
    local first, _, oldest = struct.unpack('>ddd', redis.call('ZRANGE', key, '0', '0')[1])
    while cost > 0 and used > 0 do
      local member = newest_of(key)
      local start, held, time = struct.unpack('>ddd', member)
      local given = math.min(cost, held)
      redis.call('ZREM', key, member)
      cost, used = cost - given, used - given
      if given == held and used > 0 then
        member = newest_of(key)
        start, held, time = struct.unpack('>ddd', member)
        given = 0
        redis.call('ZREM', key, member)
      end
      if used > 0 then
        -- the newest again, with what is in force now
        redis.call('ZADD', key, time, struct.pack('>ddddd', start, held - given, time, first, oldest))
        newest = time
      end
    end
    newest = used > 0 and newest or now
    local grows_at = used > 0 and time_of(key, edge, first, math.max(used - limit + 1, 1)) or now
    -- Last: a lifetime of a millisecond may be over at once, and the key gone.
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows_at, newest, now
  end

  local function block(key, _, window, _, blocked, used, grows, newest)
    redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
    redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  return refund, block
end
return look, take, lifetime, others
end
function make.compact_log()
-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
--
-- KEYS[1]  a list, oldest first, one element per admitted call: its time (microseconds), an integer; from the first call
--          on whose cost is not 1, "time:units taken before it:cost". A block is one more element at the end, "block:"
--          and the time it ends.
-- reply    used, the time of the entry that must go for remaining to grow; and, where the call did not count, the newest
--          entry's time, the time of the entry that must go for the call to pass
--
-- As long as every cost is 1, an entry's place in the list counts the units. A key's time does not run backwards: an
-- entry is never put before the newest one, so whatever is looked for is found by halving.
local function entry(element)
  local time = tonumber(element)
  if time then
    return time, nil, 1
  end
  local at, start, cost = string.match(element, '^(-?%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(start), tonumber(cost)
end

-- The newest entry, and when a block ends.
local function newest_of(key)
  local newest = redis.call('LINDEX', key, '-1')
  if newest and string.sub(newest, 1, 1) == 'b' then
    return redis.call('LINDEX', key, '-2'), tonumber(string.sub(newest, 7))
  end
  return newest
end

-- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
local function search(key, low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(redis.call('LINDEX', key, middle), middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The time of the entry that holds the units-th unit in force, the first of which has `start` units before it and stands
-- at the index `first`.
local function time_of(key, first, start, size, single, units)
  local index = first + units - 1
  if not single then
    index = search(key, first, size - 1, function(element, at)
      local _, before, cost = entry(element)
      return (before or start + at - first) + cost - start >= units
    end)
  end
  return (entry(redis.call('LINDEX', key, index)))
end

-- The entries in force of which the oldest does not stand first, or some carry a count: the index of the oldest, its
-- time, and the units taken before it.
local function oldest_of(key, edge, size, counted)
  local first = search(key, 0, size - 1, function(element) return entry(element) > edge end)
  local time, start = entry(redis.call('LINDEX', key, first))
  if counted and not start then
    -- the entries before the first that carries a count
    local from = search(key, first + 1, size - 1, function(element) return not tonumber(element) end)
    local _, before = entry(redis.call('LINDEX', key, from))
    start = before - (from - first)
  end
  return first, time, start or first
end

-- a: used, b: the time for remaining to grow, c: the newest time, d: the time for the call to pass, e: units ever taken
-- (nil while each entry counts for one), f: the index of the oldest entry in force (-1: the key holds none)
local function look(key, cost, limit, window, _, op)
  local newest, blocked = newest_of(key)
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now, nil, blocked and -1 or 0
  end
  local last, counted, held = tonumber(newest)
  if not last then
    last, counted, held = entry(newest)
  end
  local edge = (now > last and now or last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, nil, -1
  end
  local size = redis.call('LLEN', key) - (blocked and 1 or 0)
  local first, oldest, start = 0, tonumber(redis.call('LINDEX', key, '0')), 0
  if counted or oldest <= edge then
    first, oldest, start = oldest_of(key, edge, size, counted)
  end
  local taken = counted and counted + held
  local used = (taken or size) - start
  local fits = cost <= limit - used
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    local units = used - limit + cost
    passes = units == 1 and oldest or time_of(key, first, start, size, not counted, units)
  end
  if used > limit then
    oldest = time_of(key, first, start, size, not counted, used - limit + 1)
  end
  return fits and open, blocked, used, oldest, last, passes, taken, first
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(_, window, _, blocked, used, _, newest)
  local life = 0
  if used > 0 then
    life = newest > now and window or newest + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, blocked, used, oldest, newest, _, taken, first)
  local element = newest > now and string.format('%.0f', newest) or stamp
  if used == 0 then
    if first < 0 then
      redis.call('DEL', key) -- nothing in it is in force
    end
    oldest, taken = now, nil
  else
    if first > 0 then
      redis.call('LTRIM', key, first, -1)
    end
    if blocked then
      redis.call('RPOP', key) -- it is over
    end
  end
  if taken or cost ~= 1 then
    taken = taken or used
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local all = redis.call('LRANGE', key, '0', '-1')
      redis.call('DEL', key)
      for _, was in ipairs(all) do
        local time, start, held = entry(was)
        redis.call('RPUSH', key, start and string.format('%.0f:%.0f:%.0f', time, start - (taken - used), held) or was)
      end
      taken = used
    end
    element = string.format('%s:%.0f:%.0f', element, taken, cost)
  end
  redis.call('RPUSH', key, element)
  redis.call('PEXPIRE', key, (window + -window % 1000) / 1000)
  return used + cost, oldest
end

local function others()
  local function refund(key, cost, limit, window, _, blocked, taken_at, used, grows, newest, passes, taken, first)
    local edge = math.max(now, newest) - window
    if used == 0 or (taken_at and taken_at <= edge) then
      return used, grows, newest, passes -- nothing to give back, or what is in force are other calls' units
    end
    redis.call('LTRIM', key, first, blocked and -2 or -1)
    cost = math.min(cost, used)
    used = used - cost
    if not taken then
      redis.call('LTRIM', key, '0', -1 - cost)
    end
    while taken and cost > 0 do
      local time, start, held = entry(redis.call('RPOP', key))
      if cost < held then
        redis.call('RPUSH', key, string.format('%.0f:%.0f:%.0f', time, start, held - cost))
      end
      cost = cost - math.min(cost, held)
    end
    newest, grows = now, now
    if used > 0 then
      local size, last = redis.call('LLEN', key), newest_of(key)
      local _, counted = entry(last)
      newest = entry(last)
      local _, _, start = oldest_of(key, edge, size, counted)
      grows = time_of(key, 0, start, size, not counted, math.max(used - limit + 1, 1))
    end
    if blocked then
      redis.call('RPUSH', key, string.format('block:%.0f', blocked))
    end
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  local function block(key, _, window, _, blocked, used, grows, newest)
    local _, before = newest_of(key)
    if before then
      redis.call('RPOP', key)
    end
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
    redis.call('PEXPIRE', key, lifetime(nil, window, nil, blocked, used, nil, newest))
    return used, grows, newest, now
  end

  return refund, block
end
return look, take, lifetime, others
end
function make.sliding_counter()
-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- reply    start, current, previous
local function look(key, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  first = first - first % window
  if current + previous > 0 and first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local used = current
  if previous > 0 then
    used = used + mul_div(previous, now > start and window - (now - start) or window, window)
  end
  return cost <= limit - used and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(_, window, _, blocked, start, current, previous)
  local life = 0
  if current + previous > 0 then
    life = 2 * window + (start > now and 0 or start - now)
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, _, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous),
    'PX', lifetime(nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function others()
  local function block(key, _, window, _, blocked, start, current, previous)
    keep(key, blocked, struct.pack('<ddd', start, current, previous),
      lifetime(nil, window, nil, blocked, start, current, previous))
    return start, current, previous
  end

  local function refund(key, cost, _, window, _, blocked, taken, start, current, previous)
    local before = taken and taken < start and start <= now -- counted before this window began
    if before and taken >= start - window then
      cost = math.min(cost, previous)
      previous = previous - cost
    elseif before then
      cost = 0 -- in a window that no longer weighs
    else
      cost = math.min(cost, current)
      current = current - cost
    end
    if cost == 0 then
      return start, current, previous
    end
    return block(key, nil, window, nil, blocked, start, current, previous)
  end

  return refund, block
end
return look, take, lifetime, others
end
function make.token_bucket()
-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds); and a block (keep.lua). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, limit, 0, now
  end
  local tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  tokens = tokens > 0 and tokens or 0
  fraction = fraction < window and fraction or window - 1
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = now - last < 2251799813685248 and now - last or 2251799813685248
    local gained, more = mul_div(refill + 0, passed, window)
    fraction = fraction + more
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, last + passed
  end
  if tokens >= limit then
    tokens, fraction, last = limit, 0, now
  end
  return cost <= tokens and not (blocked and now < blocked), blocked, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(limit, window, refill, blocked, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end

local function take(key, cost, limit, window, refill, _, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(limit, window, refill, nil, tokens, fraction))
  return tokens, fraction, last
end

local function others()
  local function block(key, limit, window, refill, blocked, tokens, fraction, last)
    keep(key, blocked, struct.pack('<ddd', tokens, fraction, last),
      lifetime(limit, window, refill, blocked, tokens, fraction))
    return tokens, fraction, last
  end

  local function refund(key, cost, limit, window, refill, blocked, _, tokens, fraction, last)
    if tokens == limit then
      return tokens, fraction, last
    end
    tokens = math.min(tokens + cost, limit)
    if tokens == limit then
      fraction = 0
    end
    return block(key, limit, window, refill, blocked, tokens, fraction, last)
  end

  return refund, block
end
return look, take, lifetime, others
end
function make.fixed_window()
-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string of two little-endian doubles: the window's start (microseconds), the units taken in it; and a block
--          (keep.lua)
-- reply    start, count
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.
local function look(key, cost, limit, window)
  local start, count, blocked = now - now % window, 0, nil
  local stored = redis.call('GET', key)
  if stored then
    local first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
    first = first - first % window
    if taken > 0 and first >= start then
      start, count = first, taken
    end
  end
  return cost <= limit - count and not (blocked and now < blocked), blocked, start, count
end

local function lifetime(_, window, _, blocked, start, count)
  local life = 0
  if count > 0 then
    life = start > now and window or start + window - now
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, _, start, count)
  count = count + cost
  redis.call('SET', key, struct.pack('<dd', start, count), 'PX', lifetime(nil, window, nil, nil, start, count))
  return start, count
end

local function others()
  local function block(key, _, window, _, blocked, start, count)
    keep(key, blocked, struct.pack('<dd', start, count), lifetime(nil, window, nil, blocked, start, count))
    return start, count
  end

  local function refund(key, cost, _, window, _, blocked, taken, start, count)
    if count == 0 or (taken and taken < start and start <= now) then
      return start, count -- nothing to give back, or the window that took it is over
    end
    return block(key, nil, window, nil, blocked, start, count - math.min(cost, count))
  end

  return refund, block
end
return look, take, lifetime, others
end
-- Several limits, one verdict: all of them count the call, or none does. Follows now.lua and `make`: for each algorithm a
-- function that returns what its file defines.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (now.lua), op ("take", "peek" or "refund"), cost, taken (as in check.lua), span (microseconds an id is
--          remembered for; "" without an id), then for each limit: algorithm, kind, limit, window, refill (as in
--          check.lua). Kinds: "binding": its refusal refuses the call; "shadow": it counts when it fits, but refuses
--          nothing; "peek": it is only looked at, for a cost of 1.
-- reply    {now, then for each limit: allowed (1 or 0), when a block ends (0: none), four numbers of the state after,
--          unused ones `now`: see the algorithm's file}
--
-- First every limit looks, then all take or none. A part's a to f are what its algorithm's look returns.
local op, cost, taken, span = ARGV[2], ARGV[3] + 0, tonumber(ARGV[4]), ARGV[5]
local count = (#ARGV - 5) / 5
local id, again = KEYS[count + 1], false
if id then
  local first = redis.call('GET', id)
  again = first and now < first + span
end

local parts, go = {}, true
for i = 1, count do
  local p = 5 * i + 1
  local part = {op = op, cost = cost, limit = ARGV[p + 2] + 0, window = ARGV[p + 3] + 0, refill = ARGV[p + 4]}
  if ARGV[p + 1] == 'peek' then
    part.op, part.cost = 'peek', 1
  end
  local look
  look, part.take, part.lifetime, part.others = make[ARGV[p]]()
  part.fits, part.blocked, part.a, part.b, part.c, part.d, part.e, part.f =
    look(KEYS[i], part.cost, part.limit, part.window, part.refill, part.op)
  if part.op == 'take' and again then
    part.fits, part.op = true, 'peek' -- counted before, and the answer is that of then
  elseif part.op == 'take' and not part.fits and ARGV[p + 1] == 'binding' then
    go = false
  end
  parts[i] = part
end

local reply, counted = {now}, false
for i = 1, count do
  local key, p = KEYS[i], parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d =
      p.others()(key, p.cost, p.limit, p.window, p.refill, p.blocked, taken, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and p.fits and go then
    counted = true
    p.a, p.b, p.c, p.d = p.take(key, p.cost, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, p.lifetime(p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c))
  end
  local r = 6 * i - 4
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = p.fits and 1 or 0, p.blocked or 0, p.a, p.b
  reply[r + 4], reply[r + 5] = p.c or now, p.d or now
end
if id and counted then
  redis.call('SET', id, stamp, 'PX', math.ceil(span / 1000))
end
return reply
)lua"};

}  // namespace scripts

}  // namespace ratelimit::detail
