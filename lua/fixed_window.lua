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
