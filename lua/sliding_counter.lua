-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string of three little-endian doubles: the current window's start (microseconds), the units taken in it,
--          the units taken in the window before; and a block (keep.lua)
-- state    start, current, previous
-- short    start <= now and current < 67108864 and previous < 67108864 and previous * 67108864 + current
--          (the start is that of the window `now` lies in)

-- @look
local start, current, previous, blocked = now - now % window, 0, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, counted, before, rest = struct.unpack('<ddd', stored)
  blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  first = first - first % window
  if counted + before > 0 and first >= start then
    start, current, previous = first, counted, before
  elseif start - first == window then
    previous = counted
  end
end
local used = current
if previous > 0 then
  used = used + mul_div(previous, now > start and window - (now - start) or window, window)
end
local fits = cost <= limit - used and not (blocked and now < blocked)

-- @take
current = current + cost
-- to the end of the next window: until then the current one still weighs
local life = 2 * window + (start > now and 0 or start - now)
redis.call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', (life + -life % 1000) / 1000)

-- @seldom
local function lifetime()
  local life = current + previous > 0 and math.min(start + 2 * window - now, 2 * window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

@keep@
local function block()
  keep(struct.pack('<ddd', start, current, previous), lifetime())
end

local function refund(taken)
  local before = taken and taken < start and start <= now -- counted before this window began
  local given = 0
  if before and taken >= start - window then
    given = math.min(cost, previous)
    previous = previous - given
  elseif not before then
    given = math.min(cost, current)
    current = current - given
  end
  if given > 0 then
    block()
  end
end
