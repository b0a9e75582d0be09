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
