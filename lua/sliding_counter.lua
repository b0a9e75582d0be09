-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before
-- reply    start, current, previous
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, start, 0, 0
  end
  local first, current, previous = struct.unpack('<ddd', stored)
  first = first - first % window
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, start)
  return math.ceil(math.min(start + 2 * window - now, 2 * window) / 1000)
end

local function take(key, now, cost, limit, window, refill, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', lifetime(now, limit, window, refill, start))
  return start, current, previous
end

local function refund(key, now, cost, limit, window, refill, start, current, previous)
  if cost < current or previous > 0 then
    return take(key, now, -math.min(cost, current), limit, window, refill, start, current, previous)
  end
  redis.call('DEL', key)
  return start, 0, 0
end
