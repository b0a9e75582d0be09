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
    "sliding_log", "c841602b9bcd183dfb90e414b4bb38e8da20e965",
    R"lua(-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: the units taken before
--          it (16 digits), then ":" and its cost where that is not 1
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

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, edge, oldest, units)
  local first, cost, time = entry(oldest)
  if units <= cost then
    return time
  end
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCARD', key), low + units) - 1 -- no entry holds less than a unit
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
  local newest = at(key, -1)
  if not newest[1] then
    return cost <= limit, 0, now, now, now, 0
  end
  local start, held, last = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit, 0, now, now, now, 0
  end
  local oldest = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local used = start + held - entry(oldest)
  local fits = cost <= limit - used
  local grows = time_of(key, edge, oldest, math.max(used - limit + 1, 1))
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, edge, oldest, used - limit + cost)
  end
  return fits, used, last, grows, passes, start + held
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, _, newest)
  return math.ceil(math.min(newest + window - now, window) / 1000)
end

local function take(key, now, cost, limit, window, refill, used, newest, oldest, _, taken)
  local time = math.max(now, newest)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
  if used == 0 then
    oldest, taken = time, 0
  elseif taken + cost > 9007199254740991 then
    -- the count of units ever taken would no longer be exact: begin it anew
    local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    redis.call('DEL', key)
    for i = 1, #all, 2 do
      local start, held, was = entry({all[i], all[i + 1]})
      add(key, was, start - (taken - used), held)
    end
    taken = used
  end
  add(key, time, taken, cost)
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, used, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, refill, used, newest, grows)
  if used == 0 then
    return used, newest, grows, now
  end
  local edge = math.max(now, newest) - window
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  while cost > 0 and used > 0 do
    local found = at(key, -1)
    local start, held, time = entry(found)
    local given = math.min(cost, held)
    redis.call('ZREM', key, found[1])
    if given < held then
      add(key, time, start, held - given)
    end
    cost, used = cost - given, used - given
  end
  if used == 0 then
    return used, now, now, now
  end
  newest = tonumber(at(key, -1)[2])
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, used, newest))
  return used, newest, time_of(key, edge, at(key, 0), math.max(used - limit + 1, 1)), now
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund and lifetime.
--
-- KEYS[1]  the limit's key
-- ARGV     op ("take", "peek" or "refund"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1), limit (units), window (microseconds), refill (token bucket only)
-- reply    {allowed (1 or 0), now, and up to four numbers of the state after the call: see the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local fits, a, b, c, d, e = look(key, op, now, cost, limit, window, refill)
if op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and fits then
  a, b, c, d = take(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and redis.call('PTTL', key) == -1 then
  -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, a, b, c, d))
end
return {fits and 1 or 0, now, a, b, c, d}
)lua"};

inline constexpr script sliding_counter{
    "sliding_counter", "9d4167eec3f30af2f177dac3ab668340ccc5767b",
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
-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before
-- reply    start, current, previous
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, start, 0, 0
  end
  local first, current, previous = struct.unpack('<ddd', stored)
  first = first - first % window
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, start)
  return math.ceil(math.min(start + 2 * window - now, 2 * window) / 1000)
end

local function take(key, now, cost, limit, window, refill, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', lifetime(now, limit, window, refill, start))
  return start, current, previous
end

local function refund(key, now, cost, limit, window, refill, start, current, previous)
  if cost < current or previous > 0 then
    return take(key, now, -math.min(cost, current), limit, window, refill, start, current, previous)
  end
  redis.call('DEL', key)
  return start, 0, 0
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund and lifetime.
--
-- KEYS[1]  the limit's key
-- ARGV     op ("take", "peek" or "refund"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1), limit (units), window (microseconds), refill (token bucket only)
-- reply    {allowed (1 or 0), now, and up to four numbers of the state after the call: see the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local fits, a, b, c, d, e = look(key, op, now, cost, limit, window, refill)
if op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and fits then
  a, b, c, d = take(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and redis.call('PTTL', key) == -1 then
  -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, a, b, c, d))
end
return {fits and 1 or 0, now, a, b, c, d}
)lua"};

inline constexpr script token_bucket{
    "token_bucket", "7d5f1cfc528d831c1704b8f15fe0b4fc4df0c59e",
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
-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, _, now, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, limit, 0, now
  end
  local tokens, fraction, last = struct.unpack('<ddd', stored)
  tokens, fraction = math.max(tokens, 0), math.min(fraction, window - 1)
  if now > last then
    -- 71 years at most, so that the arithmetic stays exact
    local gained, rest = mul_div(refill, math.min(now - last, 2251799813685248), window)
    fraction = fraction + rest
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, now
  end
  if tokens >= limit then
    tokens, fraction = limit, 0
  end
  return cost <= tokens, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(_, limit, window, refill, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local micros = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    micros = micros + 1 -- the quotient is no longer exact: never too short
  end
  return math.min(math.ceil(micros / 1000), 9007199254740991)
end

local function take(key, now, cost, limit, window, refill, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(now, limit, window, refill, tokens, fraction))
  return tokens, fraction, last
end

local function refund(key, now, cost, limit, window, refill, tokens, fraction, last)
  if tokens + cost < limit then
    return take(key, now, -cost, limit, window, refill, tokens, fraction, last)
  end
  redis.call('DEL', key)
  return limit, 0, last
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund and lifetime.
--
-- KEYS[1]  the limit's key
-- ARGV     op ("take", "peek" or "refund"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1), limit (units), window (microseconds), refill (token bucket only)
-- reply    {allowed (1 or 0), now, and up to four numbers of the state after the call: see the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local fits, a, b, c, d, e = look(key, op, now, cost, limit, window, refill)
if op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and fits then
  a, b, c, d = take(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and redis.call('PTTL', key) == -1 then
  -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, a, b, c, d))
end
return {fits and 1 or 0, now, a, b, c, d}
)lua"};

inline constexpr script fixed_window{
    "fixed_window", "7dfa94a277eac8a4bf5dac534ed1efe40a812119",
    R"lua(-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string of two little-endian doubles: the window's start (microseconds), the units taken in it
-- reply    start, count
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.
local function look(key, _, now, cost, limit, window)
  local current = now - now % window
  local stored = redis.call('GET', key)
  if stored then
    local start, count = struct.unpack('<dd', stored)
    start = start - start % window
    if start >= current then
      return cost <= limit - count, start, count
    end
  end
  return cost <= limit, current, 0
end

local function lifetime(now, _, window, _, start)
  return math.ceil(math.min(start + window - now, window) / 1000)
end

local function take(key, now, cost, limit, window, refill, start, count)
  count = count + cost
  redis.call('SET', key, struct.pack('<dd', start, count), 'PX', lifetime(now, limit, window, refill, start))
  return start, count
end

local function refund(key, now, cost, limit, window, refill, start, count)
  if cost < count then
    return take(key, now, -cost, limit, window, refill, start, count)
  end
  redis.call('DEL', key)
  return start, 0
end
-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund and lifetime.
--
-- KEYS[1]  the limit's key
-- ARGV     op ("take", "peek" or "refund"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1), limit (units), window (microseconds), refill (token bucket only)
-- reply    {allowed (1 or 0), now, and up to four numbers of the state after the call: see the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local fits, a, b, c, d, e = look(key, op, now, cost, limit, window, refill)
if op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and fits then
  a, b, c, d = take(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and redis.call('PTTL', key) == -1 then
  -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, a, b, c, d))
end
return {fits and 1 or 0, now, a, b, c, d}
)lua"};

inline constexpr script all_of{
    "all_of", "b550f55919391ee4ae37aa72c629280d06e0f20a",
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
local make = {}
function make.sliding_log()
-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: the units taken before
--          it (16 digits), then ":" and its cost where that is not 1
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

-- The time of the entry that holds the units-th unit in force, counted from the oldest entry.
local function time_of(key, edge, oldest, units)
  local first, cost, time = entry(oldest)
  if units <= cost then
    return time
  end
  local low = redis.call('ZCOUNT', key, '-inf', edge)
  local high = math.min(redis.call('ZCARD', key), low + units) - 1 -- no entry holds less than a unit
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
  local newest = at(key, -1)
  if not newest[1] then
    return cost <= limit, 0, now, now, now, 0
  end
  local start, held, last = entry(newest)
  local edge = math.max(now, last) - window
  if last <= edge then
    return cost <= limit, 0, now, now, now, 0
  end
  local oldest = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local used = start + held - entry(oldest)
  local fits = cost <= limit - used
  local grows = time_of(key, edge, oldest, math.max(used - limit + 1, 1))
  local passes = now
  if not fits and cost <= limit and op ~= 'refund' then
    passes = time_of(key, edge, oldest, used - limit + cost)
  end
  return fits, used, last, grows, passes, start + held
end

-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime(now, _, window, _, _, newest)
  return math.ceil(math.min(newest + window - now, window) / 1000)
end

local function take(key, now, cost, limit, window, refill, used, newest, oldest, _, taken)
  local time = math.max(now, newest)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', time - window)
  if used == 0 then
    oldest, taken = time, 0
  elseif taken + cost > 9007199254740991 then
    -- the count of units ever taken would no longer be exact: begin it anew
    local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    redis.call('DEL', key)
    for i = 1, #all, 2 do
      local start, held, was = entry({all[i], all[i + 1]})
      add(key, was, start - (taken - used), held)
    end
    taken = used
  end
  add(key, time, taken, cost)
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, used, time))
  return used + cost, time, oldest, now
end

local function refund(key, now, cost, limit, window, refill, used, newest, grows)
  if used == 0 then
    return used, newest, grows, now
  end
  local edge = math.max(now, newest) - window
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  while cost > 0 and used > 0 do
    local found = at(key, -1)
    local start, held, time = entry(found)
    local given = math.min(cost, held)
    redis.call('ZREM', key, found[1])
    if given < held then
      add(key, time, start, held - given)
    end
    cost, used = cost - given, used - given
  end
  if used == 0 then
    return used, now, now, now
  end
  newest = tonumber(at(key, -1)[2])
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, used, newest))
  return used, newest, time_of(key, edge, at(key, 0), math.max(used - limit + 1, 1)), now
end
return look, take, refund, lifetime
end
function make.sliding_counter()
-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before
-- reply    start, current, previous
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, start, 0, 0
  end
  local first, current, previous = struct.unpack('<ddd', stored)
  first = first - first % window
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, start)
  return math.ceil(math.min(start + 2 * window - now, 2 * window) / 1000)
end

local function take(key, now, cost, limit, window, refill, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', lifetime(now, limit, window, refill, start))
  return start, current, previous
end

local function refund(key, now, cost, limit, window, refill, start, current, previous)
  if cost < current or previous > 0 then
    return take(key, now, -math.min(cost, current), limit, window, refill, start, current, previous)
  end
  redis.call('DEL', key)
  return start, 0, 0
end
return look, take, refund, lifetime
end
function make.token_bucket()
-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, _, now, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, limit, 0, now
  end
  local tokens, fraction, last = struct.unpack('<ddd', stored)
  tokens, fraction = math.max(tokens, 0), math.min(fraction, window - 1)
  if now > last then
    -- 71 years at most, so that the arithmetic stays exact
    local gained, rest = mul_div(refill, math.min(now - last, 2251799813685248), window)
    fraction = fraction + rest
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, now
  end
  if tokens >= limit then
    tokens, fraction = limit, 0
  end
  return cost <= tokens, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(_, limit, window, refill, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local micros = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    micros = micros + 1 -- the quotient is no longer exact: never too short
  end
  return math.min(math.ceil(micros / 1000), 9007199254740991)
end

local function take(key, now, cost, limit, window, refill, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(now, limit, window, refill, tokens, fraction))
  return tokens, fraction, last
end

local function refund(key, now, cost, limit, window, refill, tokens, fraction, last)
  if tokens + cost < limit then
    return take(key, now, -cost, limit, window, refill, tokens, fraction, last)
  end
  redis.call('DEL', key)
  return limit, 0, last
end
return look, take, refund, lifetime
end
function make.fixed_window()
-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string of two little-endian doubles: the window's start (microseconds), the units taken in it
-- reply    start, count
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.
local function look(key, _, now, cost, limit, window)
  local current = now - now % window
  local stored = redis.call('GET', key)
  if stored then
    local start, count = struct.unpack('<dd', stored)
    start = start - start % window
    if start >= current then
      return cost <= limit - count, start, count
    end
  end
  return cost <= limit, current, 0
end

local function lifetime(now, _, window, _, start)
  return math.ceil(math.min(start + window - now, window) / 1000)
end

local function take(key, now, cost, limit, window, refill, start, count)
  count = count + cost
  redis.call('SET', key, struct.pack('<dd', start, count), 'PX', lifetime(now, limit, window, refill, start))
  return start, count
end

local function refund(key, now, cost, limit, window, refill, start, count)
  if cost < count then
    return take(key, now, -cost, limit, window, refill, start, count)
  end
  redis.call('DEL', key)
  return start, 0
end
return look, take, refund, lifetime
end
-- Several limits, one verdict: all of them count the call, or none does. Follows one maker for each algorithm's file.
--
-- KEYS     one key for each limit, all in one slot
-- ARGV     now (microseconds since the epoch; "" for the server's own TIME), then for each key: algorithm, op ("take",
--          "peek" or "refund"), "1" if its refusal refuses the call or "0" if not, cost, limit, window, refill
-- reply    {now, then for each key: fits (1 or 0) and four numbers of the state after the call}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local parts, go = {}, true
for i, key in ipairs(KEYS) do
  local p = 7 * i - 5
  local part = {op = ARGV[p + 1], cost = tonumber(ARGV[p + 3]), limit = tonumber(ARGV[p + 4]),
    window = tonumber(ARGV[p + 5]), refill = tonumber(ARGV[p + 6])}
  local look
  look, part.take, part.refund, part.lifetime = make[ARGV[p]]()
  part.fits, part.a, part.b, part.c, part.d, part.e =
    look(key, part.op, now, part.cost, part.limit, part.window, part.refill)
  if part.op == 'take' and not part.fits and ARGV[p + 2] == '1' then
    go = false
  end
  parts[i] = part
end

local reply = {now}
for i, key in ipairs(KEYS) do
  local p = parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d = p.refund(key, now, p.cost, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d, p.e)
  elseif p.op == 'take' and p.fits and go then
    p.a, p.b, p.c, p.d = p.take(key, now, p.cost, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d, p.e)
  elseif p.op == 'take' and not p.fits and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, p.lifetime(now, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d))
  end
  local r = 5 * i - 3
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = p.fits and 1 or 0, p.a, p.b, p.c or 0, p.d or 0
end
return reply
)lua"};

}  // namespace scripts

}  // namespace ratelimit::detail
