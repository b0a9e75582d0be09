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
    "sliding_log", "7f19662f6ff244d445060e47477ea473ff2d0234",
    R"lua(-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: the units taken before
--          it (16 digits), then ":" and its cost where that is not 1. A block is one more member, "block:" and the time
--          it ends, with the score +inf.
-- reply    used, the newest entry's time, the time of the entry that must go for remaining to grow, and (when refused)
--          of the one that must go for the call to pass
--
-- The units taken before each entry make the units in force a difference of two members, whatever the costs. A key's
-- time does not run backwards: an entry is never put before the newest one, so members and scores are in one order.
local function entry(found)
  return tonumber(string.sub(found[1], 1, 16)), tonumber(string.sub(found[1], 18)) or 1, tonumber(found[2])
end

local function add(key, time, start, cost)
  local member = string.format('%016.0f', start)
  if cost ~= 1 then
    member = string.format('%s:%.0f', member, cost)
  end
  redis.call('ZADD', key, time, member)
end

local function at(key, rank)
  return redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
end

-- The newest entry, and the member that holds a block.
local function newest_of(key)
  local found = at(key, -1)
  if found[1] and string.sub(found[1], 1, 1) == 'b' then
    return at(key, -2), found[1]
  end
  return found
end

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, edge, oldest, units)
  local first, cost, time = entry(oldest)
  if units <= cost then
    return time
  end
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCOUNT', key, '-inf', '(inf'), low + units) - 1 -- no entry holds less than a unit
  while low < high do
    local middle = math.floor((low + high) / 2)
    local start, held = entry(at(key, middle))
    if start + held - first >= units then
      high = middle
    else
      low = middle + 1
    end
  end
  return tonumber(at(key, low)[2])
end

-- a: used, b: the newest time, c and d: the times for remaining to grow and for the call to pass, e: units ever taken
local function look(key, op, now, cost, limit, window)
  local newest, held_back = newest_of(key)
  local blocked = held_back and tonumber(string.sub(held_back, 7))
  local open = not (blocked and now < blocked)
  if not newest[1] then
    return cost <= limit and open, blocked, 0, now, now, now, 0
  end
  local start, held, last = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, 0
  end
  local oldest = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local used = start + held - entry(oldest)
  local fits = cost <= limit - used
  local grows = time_of(key, edge, oldest, math.max(used - limit + 1, 1))
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, edge, oldest, used - limit + cost)
  end
  return fits and open, blocked, used, last, grows, passes, start + held
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, blocked, used, newest)
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function take(key, now, cost, _, window, _, blocked, used, newest, oldest, _, taken)
  local time = math.max(now, newest)
  if used == 0 then
    redis.call('DEL', key) -- nothing in it is in force
    oldest, taken = time, 0
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
    if blocked then
      redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf') -- it is over
    end
  end
  if taken + cost > 9007199254740991 then
    -- the count of units ever taken would no longer be exact: begin it anew
    local all = redis.call('ZRANGEBYSCORE', key, '-inf', '(inf', 'WITHSCORES')
    redis.call('DEL', key)
    for i = 1, #all, 2 do
      local start, held, was = entry({all[i], all[i + 1]})
      add(key, was, start - (taken - used), held)
    end
    taken = used
  end
  add(key, time, taken, cost)
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, nil, used + cost, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, _, blocked, taken, used, newest, grows)
  local edge = math.max(now, newest) - window
  if used == 0 or taken and taken <= edge then
    return used, newest, grows, now -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  while cost > 0 and used > 0 do
    local found = newest_of(key)
    local start, held, time = entry(found)
    local given = math.min(cost, held)
    redis.call('ZREM', key, found[1])
    if given < held then
      add(key, time, start, held - given)
    end
    cost, used = cost - given, used - given
  end
  newest = used > 0 and tonumber(newest_of(key)[2]) or now
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  if used == 0 then
    return used, now, now, now
  end
  return used, newest, time_of(key, edge, at(key, 0), math.max(used - limit + 1, 1)), now
end

local function block(key, now, _, window, _, blocked, used, newest, grows)
  redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
  redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
)lua"};

inline constexpr script compact_log{
    "compact_log", "44552bca52ccc7b7363f5a1f55b27591c86cb0ed",
    R"lua(-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
--
-- KEYS[1]  a list, oldest first, one element per admitted call: its time (microseconds), an integer; from the first call
--          on whose cost is not 1, "time:units taken before it:cost". A block is one more element at the end, "block:"
--          and the time it ends.
-- reply    used, the newest entry's time, the time of the entry that must go for remaining to grow, and (when refused)
--          of the one that must go for the call to pass
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

local function at(key, index)
  return redis.call('LINDEX', key, index)
end

-- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
local function search(key, low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(at(key, middle), middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The newest entry, and the element that holds a block.
local function newest_of(key)
  local found = at(key, -1)
  if found and string.sub(found, 1, 1) == 'b' then
    return at(key, -2), found
  end
  return found
end

-- The entries in force, of which there is one at least: the index of the oldest, the units taken before it (counted
-- from any beginning), how many entries the list has, and whether each counts for one unit.
local function in_force(key, edge, newest, held_back)
  local size = redis.call('LLEN', key) - (held_back and 1 or 0)
  local first, oldest = 0, at(key, 0)
  local time, start = entry(oldest)
  if time <= edge then
    first = search(key, 1, size - 1, function(element) return entry(element) > edge end)
    time, start = entry(at(key, first))
  end
  local _, counted = entry(newest)
  if counted and not start then
    -- the entries before the first that carries a count
    local from = search(key, first + 1, size - 1, function(element) return not tonumber(element) end)
    local _, before = entry(at(key, from))
    start = before - (from - first)
  end
  return first, start or first, size, not counted, time
end

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, first, start, size, single, units)
  if single then
    return tonumber(at(key, first + units - 1))
  end
  local found = search(key, first, size - 1, function(element, index)
    local _, before, cost = entry(element)
    return (before or start + index - first) + cost - start >= units
  end)
  return (entry(at(key, found)))
end

-- a: used, b: the newest time, c and d: the times for remaining to grow and for the call to pass, e: units ever taken
-- (nil while each entry counts for one), f: the index of the oldest entry in force
local function look(key, op, now, cost, limit, window)
  local newest, held_back = newest_of(key)
  local blocked = held_back and tonumber(string.sub(held_back, 7))
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now
  end
  local last, counted, held = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now
  end
  local first, start, size, single, oldest = in_force(key, edge, newest, held_back)
  local taken = counted and counted + held
  local used = (taken or size) - start
  local fits = cost <= limit - used
  local grows, passes = oldest, now
  if used > limit then
    grows = time_of(key, first, start, size, single, used - limit + 1)
  end
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, first, start, size, single, used - limit + cost)
  end
  return fits and open, blocked, used, last, grows, passes, taken, first
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, blocked, used, newest)
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function take(key, now, cost, _, window, _, blocked, used, newest, oldest, _, taken, first)
  local time = math.max(now, newest)
  if used == 0 then
    redis.call('DEL', key) -- nothing in it is in force
    oldest, taken = time, nil
  else
    if first > 0 then
      redis.call('LTRIM', key, first, -1)
    end
    if blocked then
      redis.call('RPOP', key) -- it is over
    end
  end
  local element = string.format('%.0f', time)
  if taken or cost ~= 1 then
    taken = taken or used
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local all = redis.call('LRANGE', key, 0, -1)
      redis.call('DEL', key)
      for _, was in ipairs(all) do
        local then_, start, held = entry(was)
        redis.call('RPUSH', key, start and string.format('%.0f:%.0f:%.0f', then_, start - (taken - used), held) or was)
      end
      taken = used
    end
    element = string.format('%s:%.0f:%.0f', element, taken, cost)
  end
  redis.call('RPUSH', key, element)
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, nil, used + cost, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, _, blocked, taken_at, used, newest, grows, _, taken, first)
  local edge = math.max(now, newest) - window
  if used == 0 or (taken_at and taken_at <= edge) then -- it has left the window
    return used, newest, grows, now
  end
  redis.call('LTRIM', key, first, blocked and -2 or -1)
  cost = math.min(cost, used)
  used = used - cost
  if not taken then
    redis.call('LTRIM', key, 0, -1 - cost)
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
    local last = at(key, -1)
    newest = entry(last)
    local oldest, start, size, single = in_force(key, edge, last)
    grows = time_of(key, oldest, start, size, single, math.max(used - limit + 1, 1))
  end
  if blocked then
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  end
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end

local function block(key, now, _, window, _, blocked, used, newest, grows)
  local last = at(key, -1)
  if last and string.sub(last, 1, 1) == 'b' then
    redis.call('RPOP', key)
  end
  redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
)lua"};

inline constexpr script sliding_counter{
    "sliding_counter", "909c3d21cc94efe56397aa13c80295f68c9357ff",
    R"lua(-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
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
local function keep(key, now, blocked, value, life)
  if blocked then
    value, life = value .. struct.pack('<d', blocked), math.max(life, math.ceil((blocked - now) / 1000))
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
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest)
  first = first - first % window
  if current + previous == 0 then
    first = start
  end
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, blocked, start, current, previous)
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function store(key, now, window, blocked, start, current, previous)
  keep(key, now, blocked, struct.pack('<ddd', start, current, previous),
    lifetime(now, nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function take(key, now, cost, _, window, _, _, start, current, previous)
  return store(key, now, window, nil, start, current + cost, previous)
end

local function refund(key, now, cost, _, window, _, blocked, taken, start, current, previous)
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
  return store(key, now, window, blocked, start, current, previous)
end

local function block(key, now, _, window, _, blocked, start, current, previous)
  return store(key, now, window, blocked, start, current, previous)
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
)lua"};

inline constexpr script token_bucket{
    "token_bucket", "6aee8990832cbf3a1046d431748da6b62747c24d",
    R"lua(-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
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
local function keep(key, now, blocked, value, life)
  if blocked then
    value, life = value .. struct.pack('<d', blocked), math.max(life, math.ceil((blocked - now) / 1000))
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
local function look(key, _, now, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, limit, 0, now
  end
  local tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest)
  tokens, fraction = math.max(tokens, 0), math.min(fraction, window - 1)
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = math.min(now - last, 2251799813685248)
    local gained, more = mul_div(refill, passed, window)
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
local function lifetime(now, limit, window, refill, blocked, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  life = math.max(life, blocked and blocked - now or 0)
  return math.min(math.ceil(life / 1000), 9007199254740991)
end

local function store(key, now, limit, window, refill, blocked, tokens, fraction, last)
  keep(key, now, blocked, struct.pack('<ddd', tokens, fraction, last),
    lifetime(now, limit, window, refill, nil, tokens, fraction))
  return tokens, fraction, last
end

local function take(key, now, cost, limit, window, refill, _, tokens, fraction, last)
  return store(key, now, limit, window, refill, nil, tokens - cost, fraction, last)
end

local function refund(key, now, cost, limit, window, refill, blocked, _, tokens, fraction, last)
  if tokens == limit then
    return tokens, fraction, last
  end
  tokens = math.min(tokens + cost, limit)
  if tokens == limit then
    fraction = 0
  end
  return store(key, now, limit, window, refill, blocked, tokens, fraction, last)
end

local function block(key, now, limit, window, refill, blocked, tokens, fraction, last)
  return store(key, now, limit, window, refill, blocked, tokens, fraction, last)
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
)lua"};

inline constexpr script fixed_window{
    "fixed_window", "c061c4f3d3cb9bd3397d6b9b7cbcc185fec5dcac",
    R"lua(-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(key, now, blocked, value, life)
  if blocked then
    value, life = value .. struct.pack('<d', blocked), math.max(life, math.ceil((blocked - now) / 1000))
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
local function look(key, _, now, cost, limit, window)
  local start, count, blocked = now - now % window, 0, nil
  local stored = redis.call('GET', key)
  if stored then
    local first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest)
    first = first - first % window
    if taken > 0 and first >= start then
      start, count = first, taken
    end
  end
  return cost <= limit - count and not (blocked and now < blocked), blocked, start, count
end

local function lifetime(now, _, window, _, blocked, start, count)
  local life = count > 0 and math.min(start + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function store(key, now, window, blocked, start, count)
  keep(key, now, blocked, struct.pack('<dd', start, count), lifetime(now, nil, window, nil, nil, start, count))
  return start, count
end

local function take(key, now, cost, _, window, _, _, start, count)
  return store(key, now, window, nil, start, count + cost)
end

local function refund(key, now, cost, _, window, _, blocked, taken, start, count)
  if count == 0 or taken and taken < start and start <= now then
    return start, count -- nothing to give back, or the window that took it is over
  end
  return store(key, now, window, blocked, start, count - math.min(cost, count))
end

local function block(key, now, _, window, _, blocked, start, count)
  return store(key, now, window, blocked, start, count)
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
)lua"};

inline constexpr script all_of{
    "all_of", "5dd51e39d5c896b81662e148326387545ce3424e",
    R"lua(-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
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
local function keep(key, now, blocked, value, life)
  if blocked then
    value, life = value .. struct.pack('<d', blocked), math.max(life, math.ceil((blocked - now) / 1000))
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
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: the units taken before
--          it (16 digits), then ":" and its cost where that is not 1. A block is one more member, "block:" and the time
--          it ends, with the score +inf.
-- reply    used, the newest entry's time, the time of the entry that must go for remaining to grow, and (when refused)
--          of the one that must go for the call to pass
--
-- The units taken before each entry make the units in force a difference of two members, whatever the costs. A key's
-- time does not run backwards: an entry is never put before the newest one, so members and scores are in one order.
local function entry(found)
  return tonumber(string.sub(found[1], 1, 16)), tonumber(string.sub(found[1], 18)) or 1, tonumber(found[2])
end

local function add(key, time, start, cost)
  local member = string.format('%016.0f', start)
  if cost ~= 1 then
    member = string.format('%s:%.0f', member, cost)
  end
  redis.call('ZADD', key, time, member)
end

local function at(key, rank)
  return redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
end

-- The newest entry, and the member that holds a block.
local function newest_of(key)
  local found = at(key, -1)
  if found[1] and string.sub(found[1], 1, 1) == 'b' then
    return at(key, -2), found[1]
  end
  return found
end

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, edge, oldest, units)
  local first, cost, time = entry(oldest)
  if units <= cost then
    return time
  end
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCOUNT', key, '-inf', '(inf'), low + units) - 1 -- no entry holds less than a unit
  while low < high do
    local middle = math.floor((low + high) / 2)
    local start, held = entry(at(key, middle))
    if start + held - first >= units then
      high = middle
    else
      low = middle + 1
    end
  end
  return tonumber(at(key, low)[2])
end

-- a: used, b: the newest time, c and d: the times for remaining to grow and for the call to pass, e: units ever taken
local function look(key, op, now, cost, limit, window)
  local newest, held_back = newest_of(key)
  local blocked = held_back and tonumber(string.sub(held_back, 7))
  local open = not (blocked and now < blocked)
  if not newest[1] then
    return cost <= limit and open, blocked, 0, now, now, now, 0
  end
  local start, held, last = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now, 0
  end
  local oldest = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local used = start + held - entry(oldest)
  local fits = cost <= limit - used
  local grows = time_of(key, edge, oldest, math.max(used - limit + 1, 1))
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, edge, oldest, used - limit + cost)
  end
  return fits and open, blocked, used, last, grows, passes, start + held
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, blocked, used, newest)
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function take(key, now, cost, _, window, _, blocked, used, newest, oldest, _, taken)
  local time = math.max(now, newest)
  if used == 0 then
    redis.call('DEL', key) -- nothing in it is in force
    oldest, taken = time, 0
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
    if blocked then
      redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf') -- it is over
    end
  end
  if taken + cost > 9007199254740991 then
    -- the count of units ever taken would no longer be exact: begin it anew
    local all = redis.call('ZRANGEBYSCORE', key, '-inf', '(inf', 'WITHSCORES')
    redis.call('DEL', key)
    for i = 1, #all, 2 do
      local start, held, was = entry({all[i], all[i + 1]})
      add(key, was, start - (taken - used), held)
    end
    taken = used
  end
  add(key, time, taken, cost)
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, nil, used + cost, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, _, blocked, taken, used, newest, grows)
  local edge = math.max(now, newest) - window
  if used == 0 or taken and taken <= edge then
    return used, newest, grows, now -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  while cost > 0 and used > 0 do
    local found = newest_of(key)
    local start, held, time = entry(found)
    local given = math.min(cost, held)
    redis.call('ZREM', key, found[1])
    if given < held then
      add(key, time, start, held - given)
    end
    cost, used = cost - given, used - given
  end
  newest = used > 0 and tonumber(newest_of(key)[2]) or now
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  if used == 0 then
    return used, now, now, now
  end
  return used, newest, time_of(key, edge, at(key, 0), math.max(used - limit + 1, 1)), now
end

local function block(key, now, _, window, _, blocked, used, newest, grows)
  redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
  redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end
return look, take, refund, lifetime
end
function make.compact_log()
-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
--
-- KEYS[1]  a list, oldest first, one element per admitted call: its time (microseconds), an integer; from the first call
--          on whose cost is not 1, "time:units taken before it:cost". A block is one more element at the end, "block:"
--          and the time it ends.
-- reply    used, the newest entry's time, the time of the entry that must go for remaining to grow, and (when refused)
--          of the one that must go for the call to pass
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

local function at(key, index)
  return redis.call('LINDEX', key, index)
end

-- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
local function search(key, low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(at(key, middle), middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The newest entry, and the element that holds a block.
local function newest_of(key)
  local found = at(key, -1)
  if found and string.sub(found, 1, 1) == 'b' then
    return at(key, -2), found
  end
  return found
end

-- The entries in force, of which there is one at least: the index of the oldest, the units taken before it (counted
-- from any beginning), how many entries the list has, and whether each counts for one unit.
local function in_force(key, edge, newest, held_back)
  local size = redis.call('LLEN', key) - (held_back and 1 or 0)
  local first, oldest = 0, at(key, 0)
  local time, start = entry(oldest)
  if time <= edge then
    first = search(key, 1, size - 1, function(element) return entry(element) > edge end)
    time, start = entry(at(key, first))
  end
  local _, counted = entry(newest)
  if counted and not start then
    -- the entries before the first that carries a count
    local from = search(key, first + 1, size - 1, function(element) return not tonumber(element) end)
    local _, before = entry(at(key, from))
    start = before - (from - first)
  end
  return first, start or first, size, not counted, time
end

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, first, start, size, single, units)
  if single then
    return tonumber(at(key, first + units - 1))
  end
  local found = search(key, first, size - 1, function(element, index)
    local _, before, cost = entry(element)
    return (before or start + index - first) + cost - start >= units
  end)
  return (entry(at(key, found)))
end

-- a: used, b: the newest time, c and d: the times for remaining to grow and for the call to pass, e: units ever taken
-- (nil while each entry counts for one), f: the index of the oldest entry in force
local function look(key, op, now, cost, limit, window)
  local newest, held_back = newest_of(key)
  local blocked = held_back and tonumber(string.sub(held_back, 7))
  local open = not (blocked and now < blocked)
  if not newest then
    return cost <= limit and open, blocked, 0, now, now, now
  end
  local last, counted, held = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit and open, blocked, 0, now, now, now
  end
  local first, start, size, single, oldest = in_force(key, edge, newest, held_back)
  local taken = counted and counted + held
  local used = (taken or size) - start
  local fits = cost <= limit - used
  local grows, passes = oldest, now
  if used > limit then
    grows = time_of(key, first, start, size, single, used - limit + 1)
  end
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, first, start, size, single, used - limit + cost)
  end
  return fits and open, blocked, used, last, grows, passes, taken, first
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, blocked, used, newest)
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function take(key, now, cost, _, window, _, blocked, used, newest, oldest, _, taken, first)
  local time = math.max(now, newest)
  if used == 0 then
    redis.call('DEL', key) -- nothing in it is in force
    oldest, taken = time, nil
  else
    if first > 0 then
      redis.call('LTRIM', key, first, -1)
    end
    if blocked then
      redis.call('RPOP', key) -- it is over
    end
  end
  local element = string.format('%.0f', time)
  if taken or cost ~= 1 then
    taken = taken or used
    if taken + cost > 9007199254740991 then
      -- the count of units ever taken would no longer be exact: begin it anew
      local all = redis.call('LRANGE', key, 0, -1)
      redis.call('DEL', key)
      for _, was in ipairs(all) do
        local then_, start, held = entry(was)
        redis.call('RPUSH', key, start and string.format('%.0f:%.0f:%.0f', then_, start - (taken - used), held) or was)
      end
      taken = used
    end
    element = string.format('%s:%.0f:%.0f', element, taken, cost)
  end
  redis.call('RPUSH', key, element)
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, nil, used + cost, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, _, blocked, taken_at, used, newest, grows, _, taken, first)
  local edge = math.max(now, newest) - window
  if used == 0 or (taken_at and taken_at <= edge) then -- it has left the window
    return used, newest, grows, now
  end
  redis.call('LTRIM', key, first, blocked and -2 or -1)
  cost = math.min(cost, used)
  used = used - cost
  if not taken then
    redis.call('LTRIM', key, 0, -1 - cost)
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
    local last = at(key, -1)
    newest = entry(last)
    local oldest, start, size, single = in_force(key, edge, last)
    grows = time_of(key, oldest, start, size, single, math.max(used - limit + 1, 1))
  end
  if blocked then
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  end
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end

local function block(key, now, _, window, _, blocked, used, newest, grows)
  local last = at(key, -1)
  if last and string.sub(last, 1, 1) == 'b' then
    redis.call('RPOP', key)
  end
  redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime(now, nil, window, nil, blocked, used, newest))
  return used, newest, grows, now
end
return look, take, refund, lifetime
end
function make.sliding_counter()
-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- reply    start, current, previous
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest)
  first = first - first % window
  if current + previous == 0 then
    first = start
  end
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, blocked, start, current, previous)
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function store(key, now, window, blocked, start, current, previous)
  keep(key, now, blocked, struct.pack('<ddd', start, current, previous),
    lifetime(now, nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function take(key, now, cost, _, window, _, _, start, current, previous)
  return store(key, now, window, nil, start, current + cost, previous)
end

local function refund(key, now, cost, _, window, _, blocked, taken, start, current, previous)
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
  return store(key, now, window, blocked, start, current, previous)
end

local function block(key, now, _, window, _, blocked, start, current, previous)
  return store(key, now, window, blocked, start, current, previous)
end
return look, take, refund, lifetime
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
local function look(key, _, now, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, limit, 0, now
  end
  local tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest)
  tokens, fraction = math.max(tokens, 0), math.min(fraction, window - 1)
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = math.min(now - last, 2251799813685248)
    local gained, more = mul_div(refill, passed, window)
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
local function lifetime(now, limit, window, refill, blocked, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  life = math.max(life, blocked and blocked - now or 0)
  return math.min(math.ceil(life / 1000), 9007199254740991)
end

local function store(key, now, limit, window, refill, blocked, tokens, fraction, last)
  keep(key, now, blocked, struct.pack('<ddd', tokens, fraction, last),
    lifetime(now, limit, window, refill, nil, tokens, fraction))
  return tokens, fraction, last
end

local function take(key, now, cost, limit, window, refill, _, tokens, fraction, last)
  return store(key, now, limit, window, refill, nil, tokens - cost, fraction, last)
end

local function refund(key, now, cost, limit, window, refill, blocked, _, tokens, fraction, last)
  if tokens == limit then
    return tokens, fraction, last
  end
  tokens = math.min(tokens + cost, limit)
  if tokens == limit then
    fraction = 0
  end
  return store(key, now, limit, window, refill, blocked, tokens, fraction, last)
end

local function block(key, now, limit, window, refill, blocked, tokens, fraction, last)
  return store(key, now, limit, window, refill, blocked, tokens, fraction, last)
end
return look, take, refund, lifetime
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
local function look(key, _, now, cost, limit, window)
  local start, count, blocked = now - now % window, 0, nil
  local stored = redis.call('GET', key)
  if stored then
    local first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest)
    first = first - first % window
    if taken > 0 and first >= start then
      start, count = first, taken
    end
  end
  return cost <= limit - count and not (blocked and now < blocked), blocked, start, count
end

local function lifetime(now, _, window, _, blocked, start, count)
  local life = count > 0 and math.min(start + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function store(key, now, window, blocked, start, count)
  keep(key, now, blocked, struct.pack('<dd', start, count), lifetime(now, nil, window, nil, nil, start, count))
  return start, count
end

local function take(key, now, cost, _, window, _, _, start, count)
  return store(key, now, window, nil, start, count + cost)
end

local function refund(key, now, cost, _, window, _, blocked, taken, start, count)
  if count == 0 or taken and taken < start and start <= now then
    return start, count -- nothing to give back, or the window that took it is over
  end
  return store(key, now, window, blocked, start, count - math.min(cost, count))
end

local function block(key, now, _, window, _, blocked, start, count)
  return store(key, now, window, blocked, start, count)
end
return look, take, refund, lifetime
end
-- Several limits, one verdict: all of them count the call, or none does. Follows `make`: for each algorithm a function
-- that returns what its file defines.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (microseconds since the epoch; "" for the server's own TIME), span (microseconds an id is remembered
--          for; "" without an id), then for each limit: algorithm, op ("take", "peek" or "refund"), "1" if its refusal
--          refuses the call or "0" if not, cost, limit, window, refill, taken (as in check.lua)
-- reply    {now, then for each limit: allowed (1 or 0), when a block ends (0: none), four numbers of the state after,
--          unused ones 0: see the algorithm's file}
--
-- First every limit looks, then all take or none. A part's a to f are what its algorithm's look returns.
local now, span = tonumber(ARGV[1]), ARGV[2]
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local count = (#ARGV - 2) / 8
local id, again = KEYS[count + 1], false
if id then
  local first = redis.call('GET', id)
  again = first and now < first + span
end

local parts, go = {}, true
for i = 1, count do
  local p = 8 * i - 5
  local part = {op = ARGV[p + 1], cost = tonumber(ARGV[p + 3]), limit = tonumber(ARGV[p + 4]),
    window = tonumber(ARGV[p + 5]), refill = tonumber(ARGV[p + 6]), taken = tonumber(ARGV[p + 7])}
  local look
  look, part.take, part.refund, part.lifetime = make[ARGV[p]]()
  part.fits, part.blocked, part.a, part.b, part.c, part.d, part.e, part.f =
    look(KEYS[i], part.op, now, part.cost, part.limit, part.window, part.refill)
  if part.op == 'take' and again then
    part.fits, part.op = true, 'peek' -- counted before, and the answer is that of then
  elseif part.op == 'take' and not part.fits and ARGV[p + 2] == '1' then
    go = false
  end
  parts[i] = part
end

local reply, counted = {now}, false
for i = 1, count do
  local key, p = KEYS[i], parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d =
      p.refund(key, now, p.cost, p.limit, p.window, p.refill, p.blocked, p.taken, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and p.fits and go then
    counted = true
    p.a, p.b, p.c, p.d = p.take(key, now, p.cost, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, p.lifetime(now, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d))
  end
  local r = 6 * i - 4
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = p.fits and 1 or 0, p.blocked or 0, p.a, p.b
  reply[r + 4], reply[r + 5] = p.c or 0, p.d or 0
end
if id and counted then
  redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(span / 1000))
end
return reply
)lua"};

}  // namespace scripts

}  // namespace ratelimit::detail
