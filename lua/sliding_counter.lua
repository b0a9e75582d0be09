-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- reply    start, current, previous
local function look(key, cost, limit, window)
  local start = now - now % window
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, start, 0, 0
  end
  local first, current, previous, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  first = first - first % window
  if current + previous > 0 and first >= start then
    start = first
  elseif start - first == window then
    current, previous = 0, current
  else
    current, previous = 0, 0
  end
  local used = current
  if previous > 0 then
    used = used + mul_div(previous, now > start and window - (now - start) or window, window)
  end
  return cost <= limit - used and not (blocked and now < blocked), blocked, start, current, previous
end

-- To the end of the next window: until then the current one still weighs.
local function lifetime(_, window, _, blocked, start, current, previous)
  local life = 0
  if current + previous > 0 then
    life = 2 * window + (start > now and 0 or start - now)
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  return (life + -life % 1000) / 1000
end

local function take(key, cost, _, window, _, _, start, current, previous)
  current = current + cost
  redis.call('SET', key, struct.pack('<ddd', start, current, previous),
    'PX', lifetime(nil, window, nil, nil, start, current, previous))
  return start, current, previous
end

local function others()
  local function block(key, _, window, _, blocked, start, current, previous)
    keep(key, blocked, struct.pack('<ddd', start, current, previous),
      lifetime(nil, window, nil, blocked, start, current, previous))
    return start, current, previous
  end

  local function refund(key, cost, _, window, _, blocked, taken, start, current, previous)
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
    return block(key, nil, window, nil, blocked, start, current, previous)
  end

  return refund, block
end
