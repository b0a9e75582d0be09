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
