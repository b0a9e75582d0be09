-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- reply    start, current, previous
local function look(key, _, now, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest)
  first = first - first % window
  if current + previous == 0 then
    first = start
  end
  if first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local elapsed = math.max(now, start) - start
  local weighted = mul_div(previous, window - elapsed, window)
  return cost <= limit - current - weighted and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(now, _, window, _, blocked, start, current, previous)
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

local function store(key, now, window, blocked, start, current, previous)
  keep(key, now, blocked, struct.pack('<ddd', start, current, previous),
    lifetime(now, nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function take(key, now, cost, _, window, _, _, start, current, previous)
  return store(key, now, window, nil, start, current + cost, previous)
end

local function refund(key, now, cost, _, window, _, blocked, taken, start, current, previous)
  local before = taken and taken < start and start <= now -- counted before this window began
  if before and taken >= start - window then
    cost = math.min(cost, previous)
    previous = previous - cost
  elseif before then
    cost = 0 -- in a window that no longer weighs
  else
    cost = math.min(cost, current)
    current = current - cost
  end
  if cost == 0 then
    return start, current, previous
  end
  return store(key, now, window, blocked, start, current, previous)
end

local function block(key, now, _, window, _, blocked, start, current, previous)
  return store(key, now, window, blocked, start, current, previous)
end
