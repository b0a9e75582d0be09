-- Fixed window: [k * window, (k + 1) * window), counted from the epoch.
--
-- KEYS[1]  a string of two little-endian doubles: the window's start (microseconds), the units taken in it; and a block
--          (keep.lua)
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
  local first, taken, rest = struct.unpack('<dd', stored)
  blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  first = first - first % window
  if taken > 0 and first >= start then
    start, count = first, taken
  end
end
local fits = cost <= limit - count and not (blocked and now < blocked)

-- @take
count = count + cost
local life = start > now and window or start + window - now
redis.call('SET', key, struct.pack('<dd', start, count), 'PX', (life + -life % 1000) / 1000)

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
