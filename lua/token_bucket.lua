-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds); and a block (keep.lua). No key: the bucket is full.
-- state    tokens, fraction, last
-- short    last <= now and tokens * window + fraction
--          (the time is `now`)
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.

-- @look
local tokens, fraction, last, blocked = limit, 0, now, nil
local stored = redis.call('GET', key)
if stored then
  local rest
  tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
  tokens = tokens > 0 and tokens or 0
  fraction = fraction < window and fraction or window - 1
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = now - last < 2251799813685248 and now - last or 2251799813685248
    local gained, more = mul_div(refill + 0, passed, window)
    fraction = fraction + more
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, last + passed
  end
  if tokens >= limit then
    tokens, fraction, last = limit, 0, now
  end
end
local fits = cost <= tokens and not (blocked and now < blocked)

-- The time (ms) until `missing`, in 1/window of a token, has come. It does not grow when the clock runs backwards: the
-- bucket is full again when the key is gone.
local function time_to_full(missing, refill)
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end

-- @take
tokens = tokens - cost
redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last), 'PX',
  time_to_full((limit - tokens) * window - fraction, refill))

-- @seldom
local function lifetime()
  return math.max(time_to_full((limit - tokens) * window - fraction, refill),
    blocked and math.ceil((blocked - now) / 1000) or 0)
end

@keep@
local function block()
  -- a full bucket is full at any capacity
  keep(struct.pack('<ddd', tokens < limit and tokens or 9007199254740991, fraction, last), lifetime())
end

local function refund()
  if tokens < limit then
    tokens = math.min(tokens + cost, limit)
    fraction = tokens < limit and fraction or 0
    block()
  end
end
