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
