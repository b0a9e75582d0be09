-- Sliding counter: two windows aligned to the epoch,
-- used = current + floor(previous * (window - elapsed) / window).
--
-- KEYS[1]  a string: the current window's start (seconds) * 2250000 + the units taken in the window before * 1500 + the
--          units taken in it, an integer of 16 digits, which Redis keeps without a string of its own. Where that cannot
--          tell it, three little-endian doubles: the start (microseconds), the units taken in it, those of the window
--          before; and a block (keep.lua)
-- state    start, current, previous
-- short    start <= now and current < 67108864 and previous < 67108864 and previous * 67108864 + current
--          (the start is that of the window `now` lies in)

-- @look
local start, current, previous, blocked = now - now % window, 0, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, counted, before, rest
  if #stored == 16 then
    local both = stored % 2250000
    first, counted = (stored - both) / 2250000 * 1000000, both % 1500
    before = (both - counted) / 1500
  else
    first, counted, before, rest = struct.unpack('<ddd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
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
local value = current < 1500 and previous < 1500 and start % 1000000 == 0 and start < 4000000000000000
  and string.format('%d', start / 1000000 * 2250000 + previous * 1500 + current)
if not value or #value ~= 16 then -- a server of 32 bits writes no such number
  value = struct.pack('<ddd', start, current, previous)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)

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
