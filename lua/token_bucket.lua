-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds); and a block (keep.lua). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, nil, limit, 0, now
  end
  local tokens, fraction, last, rest = struct.unpack('<ddd', stored)
  local blocked = rest <= #stored and struct.unpack('<d', stored, rest) or nil
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
  return cost <= tokens and not (blocked and now < blocked), blocked, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(limit, window, refill, blocked, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local life = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    life = life + 1 -- the quotient is no longer exact: never too short
  end
  if blocked and blocked - now > life then
    life = blocked - now
  end
  life = math.ceil(life / 1000)
  return life < 9007199254740991 and life or 9007199254740991
end

local function take(key, cost, limit, window, refill, _, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(limit, window, refill, nil, tokens, fraction))
  return tokens, fraction, last
end

local function others()
  local function block(key, limit, window, refill, blocked, tokens, fraction, last)
    keep(key, blocked, struct.pack('<ddd', tokens, fraction, last),
      lifetime(limit, window, refill, blocked, tokens, fraction))
    return tokens, fraction, last
  end

  local function refund(key, cost, limit, window, refill, blocked, _, tokens, fraction, last)
    if tokens == limit then
      return tokens, fraction, last
    end
    tokens = math.min(tokens + cost, limit)
    if tokens == limit then
      fraction = 0
    end
    return block(key, limit, window, refill, blocked, tokens, fraction, last)
  end

  return refund, block
end
