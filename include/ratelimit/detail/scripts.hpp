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
    "sliding_log", "e401b900b6db30f83cd24c3cf3a0299511121946",
    R"lua(-- Sliding log: every admitted call is remembered for one window, (now - window, now].
--
-- KEYS[1]  a sorted set, one member per admitted call; score: its time (microseconds); member: five big-endian doubles:
--          the units taken before it, its cost, its time, and of the oldest entry in force when it was added the units
--          taken before that one and its time. A block is one more member, "block:" and the time it ends, with the score
--          +inf.
-- state    used, grows, newest, passes
--          (the units in force; the times of the entry that must go for remaining to grow, of the newest entry, and of
--          the entry that must go for the call to pass; after a call that counted the latter two may be missing: `now`)
-- short    not newest and grows <= now and used * window + (now - grows)
--
-- The units taken before each entry make the units in force a difference of two entries, whatever the costs, and the
-- newest member tells both as long as nothing has left the window. A key's time does not run backwards: an entry is
-- never put before the newest one, so members and scores are in one order.

-- As now.lua; and `stamp` is `now` as text, since numbers passed to a command are written slowly.
local stamp, time = ARGV[1], nil
if stamp == '' then
  time = redis.call('TIME')
  local micros = time[2]
  stamp = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
end
local now = stamp + 0
-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

-- @look
-- The time of the entry that holds the units-th unit in force.
local function time_of(edge, first, units)
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

local used, grows, newest, passes, blocked = 0, now, nil, nil, nil
local taken, oldest, stale = 0, now, false -- units ever taken; the oldest entry's time; whether some entries are over
local member = redis.call('ZRANGE', key, '-1', '-1')[1]
if member and #member ~= 40 then
  blocked = tonumber(string.sub(member, 7))
  member = redis.call('ZRANGE', key, '-2', '-2')[1]
  stale = true
end
if member then
  local start, held, last, first, eldest = struct.unpack('>ddddd', member)
  local edge = (now > last and now or last) - window
  stale = eldest <= edge
  if last > edge then
    if stale then
      local found = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'LIMIT', '0', '1')[1]
      local begins, _, time = struct.unpack('>ddd', found)
      first, eldest = begins, time
    end
    taken, oldest, newest = start + held, eldest, last
    used = taken - first
    grows = used > limit and time_of(edge, first, used - limit + 1) or oldest
    if op == 'take' or op == 'peek' then
      local units = used - limit + cost
      passes = units > 1 and cost <= limit and time_of(edge, first, units) or oldest
    end
  end
end
local fits = cost <= limit - used and not (blocked and now < blocked)

if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
-- @take
local time, score = now, stamp
if used == 0 then
  if member or blocked then
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
    for _, each in ipairs(all) do
      local start, held, was, first, before = struct.unpack('>ddddd', each)
      redis.call('ZADD', key, was, struct.pack('>ddddd', start - base, held, was, first - base, before))
    end
    taken = used
  end
end
redis.call('ZADD', key, score, struct.pack('>ddddd', taken, cost, time, taken - used, oldest))
redis.call('PEXPIRE', key, window % 1000 == 0 and string.sub(span, 1, -4) or math.ceil(window / 1000))
used, grows, newest, passes = used + cost, oldest, nil, nil

  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
-- @seldom
-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime()
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function block()
  redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
  redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime())
end

local function refund(taken_at)
  local edge = math.max(now, newest or now) - window
  if used == 0 or (taken_at and taken_at <= edge) then
    return -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  local first = taken - used
  local last = blocked and '-2' or '-1'
  while cost > 0 and used > 0 do
    local top = redis.call('ZRANGE', key, last, last)[1]
    local start, held, time = struct.unpack('>ddd', top)
    local given = math.min(cost, held)
    redis.call('ZREM', key, top)
    cost, used = cost - given, used - given
    if given == held and used > 0 then
      top, given = redis.call('ZRANGE', key, last, last)[1], 0
      start, held, time = struct.unpack('>ddd', top)
      redis.call('ZREM', key, top)
    end
    if used > 0 then
      -- the newest again, with what is in force now
      redis.call('ZADD', key, time, struct.pack('>ddddd', start, held - given, time, first, oldest))
      newest = time
    end
  end
  grows = used > limit and time_of(edge, first, used - limit + 1) or oldest
  if used == 0 then
    grows, newest = now, nil
  end
  -- Last: a lifetime of a millisecond may be over at once, and the key gone.
  redis.call('PEXPIRE', key, lifetime())
end
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

local short = not blocked and not again and not newest and grows <= now and used * window + (now - grows)
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, used, grows, newest, passes}
end
return {fits and 1 or 0, used, grows, newest, passes}
)lua"};

inline constexpr script compact_log{
    "compact_log", "41701b0823648c06aecfda7101d110906a0adf5e",
    R"lua(-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
--
-- KEYS[1]  a list, oldest first, one element per admitted call: its time (microseconds), an integer; from the first call
--          on whose cost is not 1, "time:units taken before it:cost". A block is one more element at the end, "block:"
--          and the time it ends.
-- state    used, grows, newest, passes
-- short    not newest and grows <= now and used * window + (now - grows)
--          (both as in sliding_log.lua)
-- full     plain and not fits and op ~= 'block' and eldest .. ' ' .. element
--          (the times of the oldest and the newest entry; as many units are in force as leave no room for the last of
--          the call's, and when the oldest goes it passes)
--
-- As long as every cost is 1, an entry's place in the list counts the units. A key's time does not run backwards: an
-- entry is never put before the newest one, so whatever is looked for is found by halving.

-- As now.lua; and `stamp` is `now` as text, since numbers passed to a command are written slowly.
local stamp, time = ARGV[1], nil
if stamp == '' then
  time = redis.call('TIME')
  local micros = time[2]
  stamp = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
end
local now = stamp + 0
-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

-- @look
local used, grows, newest, passes, blocked = 0, now, nil, nil, nil
-- how many entries there are; the index, the time and the units before the oldest in force; the units ever taken, nil
-- while each entry counts for one
local size, first, oldest, start, taken = 0, 0, now, 0, nil
local eldest, entry, find_oldest, time_of

local element, edge = redis.call('LINDEX', key, '-1'), nil
local last = element and tonumber(element)
local plain = last and op ~= 'refund' -- the newest and the oldest entry tell all
if plain then
  edge = (now > last and now or last) - window
  if last > edge then
    size, eldest = redis.call('LLEN', key), redis.call('LINDEX', key, '0')
    oldest = eldest + 0
    used, grows, newest, passes = size, oldest, last, oldest
    plain = oldest > edge and size - limit + cost <= 1
  end
end
if element and not plain then
  -- An element's time, the units taken before it (nil where its place counts them), its cost.
  function entry(each)
    local time = tonumber(each)
    if time then
      return time, nil, 1
    end
    local at, before, held = string.match(each, '^(-?%d+):(%d+):(%d+)$')
    return tonumber(at), tonumber(before), tonumber(held)
  end

  -- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
  -- What stands near `low` is found in few steps, however long the list is.
  local function search(low, high, holds)
    local step = 1
    while low + step < high and not holds(redis.call('LINDEX', key, low + step - 1), low + step - 1) do
      low, step = low + step, 2 * step
    end
    high = math.min(high, low + step)
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

  -- Finds the oldest entry in force.
  function find_oldest()
    first = search(0, size - 1, function(each) return entry(each) > edge end)
    oldest, start = entry(redis.call('LINDEX', key, first))
    if taken and not start then
      -- the entries before the first that carries a count
      local from = search(first + 1, size - 1, function(each) return not tonumber(each) end)
      local _, before = entry(redis.call('LINDEX', key, from))
      start = before - (from - first)
    end
    start = start or first
  end

  -- The time of the entry that holds the units-th unit in force.
  function time_of(units)
    local index = first + units - 1
    if taken then
      index = search(first, size - 1, function(each, at)
        local _, before, held = entry(each)
        return (before or start + at - first) + held - start >= units
      end)
    end
    return (entry(redis.call('LINDEX', key, index)))
  end

  if string.sub(element, 1, 1) == 'b' then
    blocked = tonumber(string.sub(element, 7))
    element = redis.call('LINDEX', key, '-2')
  end
  used, grows, newest, passes = 0, now, nil, nil
  if element then
    local counted, held
    last, counted, held = entry(element)
    taken = counted and counted + held
    edge = (now > last and now or last) - window
  end
  if element and last > edge then
    newest, size = last, (size > 0 and size or redis.call('LLEN', key)) - (blocked and 1 or 0)
    find_oldest()
    used = (taken or size) - start
    local over = used - limit + cost
    grows = used > limit and time_of(used - limit + 1) or oldest
    passes = over > 1 and cost <= limit and op ~= 'refund' and op ~= 'block' and time_of(over) or oldest
  else
    taken = nil
  end
end
local fits = cost <= limit - used and not (blocked and now < blocked)

if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
-- @take
local text = newest and newest > now and string.format('%.0f', newest) or stamp
if used == 0 then
  if element or blocked then
    redis.call('DEL', key) -- nothing in it is in force
  end
  oldest, taken = now, nil
else
  if first > 0 then
    redis.call('LTRIM', key, first, '-1')
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
    for _, each in ipairs(all) do
      local time, before, held = entry(each)
      redis.call('RPUSH', key, before and string.format('%.0f:%.0f:%.0f', time, before - (taken - used), held) or each)
    end
    taken = used
  end
  text = string.format('%s:%.0f:%.0f', text, taken, cost)
end
redis.call('RPUSH', key, text)
redis.call('PEXPIRE', key, window % 1000 == 0 and string.sub(span, 1, -4) or math.ceil(window / 1000))
used, grows, newest, passes = used + cost, oldest, nil, nil

  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
-- @seldom
-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime()
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function block()
  local last = redis.call('LINDEX', key, '-1')
  if last and string.sub(last, 1, 1) == 'b' then
    redis.call('RPOP', key)
  end
  redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime())
end

local function refund(taken_at)
  if used == 0 or (taken_at and taken_at <= edge) then
    return -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('LTRIM', key, first, blocked and '-2' or '-1')
  cost = math.min(cost, used)
  used = used - cost
  if not taken then
    redis.call('LTRIM', key, '0', -1 - cost)
  end
  while taken and cost > 0 do
    local time, before, held = entry(redis.call('RPOP', key))
    if cost < held then
      redis.call('RPUSH', key, string.format('%.0f:%.0f:%.0f', time, before, held - cost))
    end
    cost = cost - math.min(cost, held)
  end
  grows, newest = now, nil
  if used > 0 then
    local counted, held
    newest, counted, held = entry(redis.call('LINDEX', key, '-1'))
    size, taken = redis.call('LLEN', key), counted and counted + held
    find_oldest()
    grows = time_of(math.max(used - limit + 1, 1))
  end
  if blocked then
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  end
  redis.call('PEXPIRE', key, lifetime())
end
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

local full = plain and not fits and op ~= 'block' and eldest .. ' ' .. element
if full then
  return time and time[1] .. ' ' .. time[2] .. ' ' .. full or full
end
local short = not blocked and not again and not newest and grows <= now and used * window + (now - grows)
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, used, grows, newest, passes}
end
return {fits and 1 or 0, used, grows, newest, passes}
)lua"};

inline constexpr script sliding_counter{
    "sliding_counter", "dd820e5f0a6a30f11016c3dac2d923d076a5e3ca",
    R"lua(-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string: the current window's start (seconds) * 2250000 + the units taken in the window before * 1500 + the
--          units taken in it, an integer of 16 digits, which Redis keeps without a string of its own. Where that cannot
--          tell it, three little-endian doubles: the start (microseconds), the units taken in it, those of the window
--          before; and a block (keep.lua)
-- state    start, current, previous
-- short    start <= now and current < 67108864 and previous < 67108864 and previous * 67108864 + current
--          (the start is that of the window `now` lies in)

-- The time is ARGV[1], microseconds since the epoch, or where that is "" the server's own: then `time` holds its seconds
-- and microseconds as text.
local now, time = ARGV[1], nil
if now == '' then
  time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
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
-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

-- @look
local start, current, previous, blocked = now - now % window, 0, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, counted, before, rest
  if #stored == 16 then
    local both = stored % 2250000
    first, counted = (stored - both) / 2250000 * 1000000, both % 1500
    before = (both - counted) / 1500
  else
    first, counted, before, rest = struct.unpack('<ddd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
  first = first - first % window
  if counted + before > 0 and first >= start then
    start, current, previous = first, counted, before
  elseif start - first == window then
    previous = counted
  end
end
local used = current
if previous > 0 then
  used = used + mul_div(previous, now > start and window - (now - start) or window, window)
end
local fits = cost <= limit - used and not (blocked and now < blocked)

if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
-- @take
current = current + cost
-- to the end of the next window: until then the current one still weighs
local life = 2 * window + (start > now and 0 or start - now)
local value = current < 1500 and previous < 1500 and start % 1000000 == 0 and start < 4000000000000000
  and string.format('%d', start / 1000000 * 2250000 + previous * 1500 + current)
if not value or #value ~= 16 then -- a server of 32 bits writes no such number
  value = struct.pack('<ddd', start, current, previous)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)

  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  keep(struct.pack('<ddd', start, current, previous), lifetime())
end

local function refund(taken)
  local before = taken and taken < start and start <= now -- counted before this window began
  local given = 0
  if before and taken >= start - window then
    given = math.min(cost, previous)
    previous = previous - given
  elseif not before then
    given = math.min(cost, current)
    current = current - given
  end
  if given > 0 then
    block()
  end
end
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

local short = not blocked and not again and start <= now and current < 67108864 and previous < 67108864 and previous * 67108864 + current
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, start, current, previous}
end
return {fits and 1 or 0, start, current, previous}
)lua"};

inline constexpr script token_bucket{
    "token_bucket", "8615c73595fd33c94d9d3d3443ddad9b977919fe",
    R"lua(-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds); and a block (keep.lua). No key: the bucket is full.
-- state    tokens, fraction, last
-- short    last <= now and tokens * window + fraction
--          (the time is `now`)
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.

-- The time is ARGV[1], microseconds since the epoch, or where that is "" the server's own: then `time` holds its seconds
-- and microseconds as text.
local now, time = ARGV[1], nil
if now == '' then
  time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
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
-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

-- @look
local tokens, fraction, last, blocked = limit, 0, now, nil
local stored = redis.call('GET', key)
if stored then
  local rest
  tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
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
end
local fits = cost <= tokens and not (blocked and now < blocked)

-- The time (ms) until `missing`, in 1/window of a token, has come. It does not grow when the clock runs backwards: the
-- bucket is full again when the key is gone.
local function time_to_full(missing, refill)
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end

if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
-- @take
tokens = tokens - cost
redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last), 'PX',
  time_to_full((limit - tokens) * window - fraction, refill))

  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  return math.max(time_to_full((limit - tokens) * window - fraction, refill),
    blocked and math.ceil((blocked - now) / 1000) or 0)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  -- a full bucket is full at any capacity
  keep(struct.pack('<ddd', tokens < limit and tokens or 9007199254740991, fraction, last), lifetime())
end

local function refund()
  if tokens < limit then
    tokens = math.min(tokens + cost, limit)
    fraction = tokens < limit and fraction or 0
    block()
  end
end
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

local short = not blocked and not again and last <= now and tokens * window + fraction
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, tokens, fraction, last}
end
return {fits and 1 or 0, tokens, fraction, last}
)lua"};

inline constexpr script fixed_window{
    "fixed_window", "bc1f0e0fe6a1f8e78c00c80dde2a90b9257a31d2",
    R"lua(-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string: the window's start (seconds) * 250000 + the units taken in it, an integer of 15 digits, which Redis
--          keeps without a string of its own. Where that cannot tell it, two little-endian doubles: the start
--          (microseconds), the units taken in it; and a block (keep.lua)
-- state    start, count
-- short    start <= now and count
--          (the start is the one that `now` lies in)
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.

-- The time is ARGV[1], microseconds since the epoch, or where that is "" the server's own: then `time` holds its seconds
-- and microseconds as text.
local now, time = ARGV[1], nil
if now == '' then
  time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

-- @look
local start, count, blocked = now - now % window, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, taken, rest
  if #stored == 15 then
    taken = stored % 250000
    first = (stored - taken) / 250000 * 1000000
  else
    first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
  first = first - first % window
  if taken > 0 and first >= start then
    start, count = first, taken
  end
end
local fits = cost <= limit - count and not (blocked and now < blocked)

if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
-- @take
count = count + cost
local life = start > now and window or start + window - now
local value = count < 250000 and start % 1000000 == 0 and string.format('%d', start / 1000000 * 250000 + count)
if not value or #value ~= 15 then -- a server of 32 bits writes no such number
  value = struct.pack('<dd', start, count)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)

  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  local life = count > 0 and math.min(start + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  keep(struct.pack('<dd', start, count), lifetime())
end

local function refund(taken)
  -- not when there is nothing to give back, or the window that took it is over
  if count > 0 and not (taken and taken < start and start <= now) then
    count = count - math.min(cost, count)
    block()
  end
end
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

local short = not blocked and not again and start <= now and count
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, start, count}
end
return {fits and 1 or 0, start, count}
)lua"};

inline constexpr script all_of{
    "all_of", "5613b77033437108d096c8d942b6c1e991f20bde",
    R"lua(-- As now.lua; and `stamp` is `now` as text, since numbers passed to a command are written slowly.
local stamp, time = ARGV[1], nil
if stamp == '' then
  time = redis.call('TIME')
  local micros = time[2]
  stamp = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
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
-- Several limits, one verdict: all of them count the call, or none does. An algorithm's file is put in here as a function
-- that looks, asks the limits after it, and then takes or does not; see check.lua for the file's parts.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (stamp.lua), op ("take", "peek" or "refund"), cost, taken (as in check.lua), memory (microseconds an id is
--          remembered for; "" without an id), then for each limit: algorithm, kind, limit, window, refill (as in
--          check.lua). Kinds: "binding": its refusal refuses the call; "shadow": it counts when it fits, but refuses
--          nothing; "peek": it is only looked at, for a cost of 1.
-- reply    {now, then for each limit its state after the call: see the algorithm's file}. Where it is told by one number
--          n below 2^53 ("short"), n when the limit allows the call and -1 - n when it does not; a refusal told by two
--          times ("full"), as a text with a space between them; else {1 (allowed) or 0, and 4 more when the call was
--          counted before, when a block ends (0: none), four numbers of the state, missing ones `now`}
local whole_op, whole_cost = ARGV[2], ARGV[3] + 0
local limits = (#ARGV - 5) / 5
local id, again = KEYS[limits + 1], false
if id and whole_op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + ARGV[5]
end

local reply, look, some_took = {now}, {}, false

-- Asks the limits from the i-th on; `go`: whether those before it let the call pass. Returns whether all of them do.
local function ask(i, go)
  if i > limits then
    return go
  end
  reply[i + 1] = false -- in its place, before those after it
  local p = 5 * i + 1
  return look[ARGV[p]](i, go, KEYS[i], ARGV[p + 1], ARGV[p + 2] + 0, ARGV[p + 3], ARGV[p + 4])
end

function look.sliding_log(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
-- @look
-- The time of the entry that holds the units-th unit in force.
local function time_of(edge, first, units)
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

local used, grows, newest, passes, blocked = 0, now, nil, nil, nil
local taken, oldest, stale = 0, now, false -- units ever taken; the oldest entry's time; whether some entries are over
local member = redis.call('ZRANGE', key, '-1', '-1')[1]
if member and #member ~= 40 then
  blocked = tonumber(string.sub(member, 7))
  member = redis.call('ZRANGE', key, '-2', '-2')[1]
  stale = true
end
if member then
  local start, held, last, first, eldest = struct.unpack('>ddddd', member)
  local edge = (now > last and now or last) - window
  stale = eldest <= edge
  if last > edge then
    if stale then
      local found = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', edge), '+inf', 'LIMIT', '0', '1')[1]
      local begins, _, time = struct.unpack('>ddd', found)
      first, eldest = begins, time
    end
    taken, oldest, newest = start + held, eldest, last
    used = taken - first
    grows = used > limit and time_of(edge, first, used - limit + 1) or oldest
    if op == 'take' or op == 'peek' then
      local units = used - limit + cost
      passes = units > 1 and cost <= limit and time_of(edge, first, units) or oldest
    end
  end
end
local fits = cost <= limit - used and not (blocked and now < blocked)


  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
-- @take
local time, score = now, stamp
if used == 0 then
  if member or blocked then
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
    for _, each in ipairs(all) do
      local start, held, was, first, before = struct.unpack('>ddddd', each)
      redis.call('ZADD', key, was, struct.pack('>ddddd', start - base, held, was, first - base, before))
    end
    taken = used
  end
end
redis.call('ZADD', key, score, struct.pack('>ddddd', taken, cost, time, taken - used, oldest))
redis.call('PEXPIRE', key, window % 1000 == 0 and string.sub(span, 1, -4) or math.ceil(window / 1000))
used, grows, newest, passes = used + cost, oldest, nil, nil


    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
-- @seldom
-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime()
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function block()
  redis.call('ZREMRANGEBYSCORE', key, 'inf', 'inf')
  redis.call('ZADD', key, 'inf', string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime())
end

local function refund(taken_at)
  local edge = math.max(now, newest or now) - window
  if used == 0 or (taken_at and taken_at <= edge) then
    return -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', edge)
  local first = taken - used
  local last = blocked and '-2' or '-1'
  while cost > 0 and used > 0 do
    local top = redis.call('ZRANGE', key, last, last)[1]
    local start, held, time = struct.unpack('>ddd', top)
    local given = math.min(cost, held)
    redis.call('ZREM', key, top)
    cost, used = cost - given, used - given
    if given == held and used > 0 then
      top, given = redis.call('ZRANGE', key, last, last)[1], 0
      start, held, time = struct.unpack('>ddd', top)
      redis.call('ZREM', key, top)
    end
    if used > 0 then
      -- the newest again, with what is in force now
      redis.call('ZADD', key, time, struct.pack('>ddddd', start, held - given, time, first, oldest))
      newest = time
    end
  end
  grows = used > limit and time_of(edge, first, used - limit + 1) or oldest
  if used == 0 then
    grows, newest = now, nil
  end
  -- Last: a lifetime of a millisecond may be over at once, and the key gone.
  redis.call('PEXPIRE', key, lifetime())
end

    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
  local short = not blocked and not again and not newest and grows <= now and used * window + (now - grows)
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = used, grows, newest, passes
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end

function look.compact_log(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
-- @look
local used, grows, newest, passes, blocked = 0, now, nil, nil, nil
-- how many entries there are; the index, the time and the units before the oldest in force; the units ever taken, nil
-- while each entry counts for one
local size, first, oldest, start, taken = 0, 0, now, 0, nil
local eldest, entry, find_oldest, time_of

local element, edge = redis.call('LINDEX', key, '-1'), nil
local last = element and tonumber(element)
local plain = last and op ~= 'refund' -- the newest and the oldest entry tell all
if plain then
  edge = (now > last and now or last) - window
  if last > edge then
    size, eldest = redis.call('LLEN', key), redis.call('LINDEX', key, '0')
    oldest = eldest + 0
    used, grows, newest, passes = size, oldest, last, oldest
    plain = oldest > edge and size - limit + cost <= 1
  end
end
if element and not plain then
  -- An element's time, the units taken before it (nil where its place counts them), its cost.
  function entry(each)
    local time = tonumber(each)
    if time then
      return time, nil, 1
    end
    local at, before, held = string.match(each, '^(-?%d+):(%d+):(%d+)$')
    return tonumber(at), tonumber(before), tonumber(held)
  end

  -- The first index from `low` on, and below `high`, where holds(element, index) is true; it stays true from there on.
  -- What stands near `low` is found in few steps, however long the list is.
  local function search(low, high, holds)
    local step = 1
    while low + step < high and not holds(redis.call('LINDEX', key, low + step - 1), low + step - 1) do
      low, step = low + step, 2 * step
    end
    high = math.min(high, low + step)
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

  -- Finds the oldest entry in force.
  function find_oldest()
    first = search(0, size - 1, function(each) return entry(each) > edge end)
    oldest, start = entry(redis.call('LINDEX', key, first))
    if taken and not start then
      -- the entries before the first that carries a count
      local from = search(first + 1, size - 1, function(each) return not tonumber(each) end)
      local _, before = entry(redis.call('LINDEX', key, from))
      start = before - (from - first)
    end
    start = start or first
  end

  -- The time of the entry that holds the units-th unit in force.
  function time_of(units)
    local index = first + units - 1
    if taken then
      index = search(first, size - 1, function(each, at)
        local _, before, held = entry(each)
        return (before or start + at - first) + held - start >= units
      end)
    end
    return (entry(redis.call('LINDEX', key, index)))
  end

  if string.sub(element, 1, 1) == 'b' then
    blocked = tonumber(string.sub(element, 7))
    element = redis.call('LINDEX', key, '-2')
  end
  used, grows, newest, passes = 0, now, nil, nil
  if element then
    local counted, held
    last, counted, held = entry(element)
    taken = counted and counted + held
    edge = (now > last and now or last) - window
  end
  if element and last > edge then
    newest, size = last, (size > 0 and size or redis.call('LLEN', key)) - (blocked and 1 or 0)
    find_oldest()
    used = (taken or size) - start
    local over = used - limit + cost
    grows = used > limit and time_of(used - limit + 1) or oldest
    passes = over > 1 and cost <= limit and op ~= 'refund' and op ~= 'block' and time_of(over) or oldest
  else
    taken = nil
  end
end
local fits = cost <= limit - used and not (blocked and now < blocked)


  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
-- @take
local text = newest and newest > now and string.format('%.0f', newest) or stamp
if used == 0 then
  if element or blocked then
    redis.call('DEL', key) -- nothing in it is in force
  end
  oldest, taken = now, nil
else
  if first > 0 then
    redis.call('LTRIM', key, first, '-1')
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
    for _, each in ipairs(all) do
      local time, before, held = entry(each)
      redis.call('RPUSH', key, before and string.format('%.0f:%.0f:%.0f', time, before - (taken - used), held) or each)
    end
    taken = used
  end
  text = string.format('%s:%.0f:%.0f', text, taken, cost)
end
redis.call('RPUSH', key, text)
redis.call('PEXPIRE', key, window % 1000 == 0 and string.sub(span, 1, -4) or math.ceil(window / 1000))
used, grows, newest, passes = used + cost, oldest, nil, nil


    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
-- @seldom
-- One window after the last entry, and no more when that lies ahead of the clock.
local function lifetime()
  local life = used > 0 and math.min(newest + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function block()
  local last = redis.call('LINDEX', key, '-1')
  if last and string.sub(last, 1, 1) == 'b' then
    redis.call('RPOP', key)
  end
  redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  redis.call('PEXPIRE', key, lifetime())
end

local function refund(taken_at)
  if used == 0 or (taken_at and taken_at <= edge) then
    return -- nothing to give back, or what is in force are other calls' units
  end
  redis.call('LTRIM', key, first, blocked and '-2' or '-1')
  cost = math.min(cost, used)
  used = used - cost
  if not taken then
    redis.call('LTRIM', key, '0', -1 - cost)
  end
  while taken and cost > 0 do
    local time, before, held = entry(redis.call('RPOP', key))
    if cost < held then
      redis.call('RPUSH', key, string.format('%.0f:%.0f:%.0f', time, before, held - cost))
    end
    cost = cost - math.min(cost, held)
  end
  grows, newest = now, nil
  if used > 0 then
    local counted, held
    newest, counted, held = entry(redis.call('LINDEX', key, '-1'))
    size, taken = redis.call('LLEN', key), counted and counted + held
    find_oldest()
    grows = time_of(math.max(used - limit + 1, 1))
  end
  if blocked then
    redis.call('RPUSH', key, string.format('block:%.0f', blocked))
  end
  redis.call('PEXPIRE', key, lifetime())
end

    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
  reply[i + 1] = plain and not fits and op ~= 'block' and eldest .. ' ' .. element
  if reply[i + 1] then
    return go
  end
  local short = not blocked and not again and not newest and grows <= now and used * window + (now - grows)
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = used, grows, newest, passes
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end

function look.sliding_counter(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
-- @look
local start, current, previous, blocked = now - now % window, 0, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, counted, before, rest
  if #stored == 16 then
    local both = stored % 2250000
    first, counted = (stored - both) / 2250000 * 1000000, both % 1500
    before = (both - counted) / 1500
  else
    first, counted, before, rest = struct.unpack('<ddd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
  first = first - first % window
  if counted + before > 0 and first >= start then
    start, current, previous = first, counted, before
  elseif start - first == window then
    previous = counted
  end
end
local used = current
if previous > 0 then
  used = used + mul_div(previous, now > start and window - (now - start) or window, window)
end
local fits = cost <= limit - used and not (blocked and now < blocked)


  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
-- @take
current = current + cost
-- to the end of the next window: until then the current one still weighs
local life = 2 * window + (start > now and 0 or start - now)
local value = current < 1500 and previous < 1500 and start % 1000000 == 0 and start < 4000000000000000
  and string.format('%d', start / 1000000 * 2250000 + previous * 1500 + current)
if not value or #value ~= 16 then -- a server of 32 bits writes no such number
  value = struct.pack('<ddd', start, current, previous)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)


    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  keep(struct.pack('<ddd', start, current, previous), lifetime())
end

local function refund(taken)
  local before = taken and taken < start and start <= now -- counted before this window began
  local given = 0
  if before and taken >= start - window then
    given = math.min(cost, previous)
    previous = previous - given
  elseif not before then
    given = math.min(cost, current)
    current = current - given
  end
  if given > 0 then
    block()
  end
end

    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
  local short = not blocked and not again and start <= now and current < 67108864 and previous < 67108864 and previous * 67108864 + current
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = start, current, previous
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end

function look.token_bucket(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
-- @look
local tokens, fraction, last, blocked = limit, 0, now, nil
local stored = redis.call('GET', key)
if stored then
  local rest
  tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
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
end
local fits = cost <= tokens and not (blocked and now < blocked)

-- The time (ms) until `missing`, in 1/window of a token, has come. It does not grow when the clock runs backwards: the
-- bucket is full again when the key is gone.
local function time_to_full(missing, refill)
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end


  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
-- @take
tokens = tokens - cost
redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last), 'PX',
  time_to_full((limit - tokens) * window - fraction, refill))


    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  return math.max(time_to_full((limit - tokens) * window - fraction, refill),
    blocked and math.ceil((blocked - now) / 1000) or 0)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  -- a full bucket is full at any capacity
  keep(struct.pack('<ddd', tokens < limit and tokens or 9007199254740991, fraction, last), lifetime())
end

local function refund()
  if tokens < limit then
    tokens = math.min(tokens + cost, limit)
    fraction = tokens < limit and fraction or 0
    block()
  end
end

    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
  local short = not blocked and not again and last <= now and tokens * window + fraction
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = tokens, fraction, last
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end

function look.fixed_window(i, go, key, kind, limit, span, refill)
  local window, op, cost = span + 0, whole_op, whole_cost
  if kind == 'peek' then
    op, cost = 'peek', 1
  end
-- @look
local start, count, blocked = now - now % window, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, taken, rest
  if #stored == 15 then
    taken = stored % 250000
    first = (stored - taken) / 250000 * 1000000
  else
    first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
  first = first - first % window
  if taken > 0 and first >= start then
    start, count = first, taken
  end
end
local fits = cost <= limit - count and not (blocked and now < blocked)


  local again = again and op == 'take'
  if again then
    fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
  elseif op == 'take' and not fits and kind == 'binding' then
    go = false
  end
  go = ask(i + 1, go)
  if op == 'take' and not again and fits and go then
-- @take
count = count + cost
local life = start > now and window or start + window - now
local value = count < 250000 and start % 1000000 == 0 and string.format('%d', start / 1000000 * 250000 + count)
if not value or #value ~= 15 then -- a server of 32 bits writes no such number
  value = struct.pack('<dd', start, count)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)


    blocked = nil
    some_took = true
  elseif op == 'refund' or (op == 'take' and not again and redis.call('PTTL', key) == -1) then
-- @seldom
local function lifetime()
  local life = count > 0 and math.min(start + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
local function block()
  keep(struct.pack('<dd', start, count), lifetime())
end

local function refund(taken)
  -- not when there is nothing to give back, or the window that took it is over
  if count > 0 and not (taken and taken < start and start <= now) then
    count = count - math.min(cost, count)
    block()
  end
end

    if op == 'refund' then
      refund(tonumber(ARGV[4]))
    else
      -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
      redis.call('PEXPIRE', key, lifetime())
    end
  end
  local short = not blocked and not again and start <= now and count
  if short and short < 9007199254740992 then
    reply[i + 1] = fits and short or -1 - short
  else
    local a, b, c, d = start, count
    reply[i + 1] = {(fits and 1 or 0) + (again and 4 or 0), blocked or 0, a, b, c or now, d or now}
  end
  return go
end

ask(1, true)
if id and some_took then
  redis.call('SET', id, stamp, 'PX', math.ceil(ARGV[5] / 1000))
end
return reply
)lua"};

}  // namespace scripts

}  // namespace ratelimit::detail
