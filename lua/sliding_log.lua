-- Sliding log: every admitted call is remembered for one window, (now - window, now].
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
