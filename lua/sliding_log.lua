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
