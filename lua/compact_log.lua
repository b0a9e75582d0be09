-- Compact log: the decisions of the sliding log, from a list of about 10 bytes an entry.
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
