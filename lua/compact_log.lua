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
