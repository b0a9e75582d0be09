-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string: the window's start (seconds) * 250000 + the units taken in it, an integer of 15 digits, which Redis
--          keeps without a string of its own. Where that cannot tell it, two little-endian doubles: the start
--          (microseconds), the units taken in it; and a block (keep.lua)
-- state    start, count
-- short    start <= now and count
--          (the start is the one that `now` lies in)
--
-- The stored start, not the clock, says which window a count belongs to: one that lies ahead of the clock stays in
-- force until it is over.

-- @look
local start, count, blocked = now - now % window, 0, nil
local stored = redis.call('GET', key)
if stored then
  local first, taken, rest
  if #stored == 15 then
    taken = stored % 250000
    first = (stored - taken) / 250000 * 1000000
  else
    first, taken, rest = struct.unpack('<dd', stored)
    blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  end
  first = first - first % window
  if taken > 0 and first >= start then
    start, count = first, taken
  end
end
local fits = cost <= limit - count and not (blocked and now < blocked)

-- @take
count = count + cost
local life = start > now and window or start + window - now
local value = count < 250000 and start % 1000000 == 0 and string.format('%d', start / 1000000 * 250000 + count)
if not value or #value ~= 15 then -- a server of 32 bits writes no such number
  value = struct.pack('<dd', start, count)
end
redis.call('SET', key, value, 'PX', (life + -life % 1000) / 1000)

-- @seldom
local function lifetime()
  local life = count > 0 and math.min(start + window - now, window) or 0
  return math.ceil(math.max(life, blocked and blocked - now or 0) / 1000)
end

@keep@
local function block()
  keep(struct.pack('<dd', start, count), lifetime())
end

local function refund(taken)
  -- not when there is nothing to give back, or the window that took it is over
  if count > 0 and not (taken and taken < start and start <= now) then
    count = count - math.min(cost, count)
    block()
  end
end
