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
