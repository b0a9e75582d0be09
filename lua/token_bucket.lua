-- Token bucket: `refill` tokens come each `window` microseconds, up to `limit`.
--
-- KEYS[1]  a string of three little-endian doubles: whole tokens, the fraction of the next one in 1/window, the time
--          the two were true at (microseconds). No key: the bucket is full.
-- reply    tokens, fraction, that time
--
-- No part of a token is lost or made, whatever the rhythm of calls: a refusal writes nothing, and the fraction goes on
-- growing from the stored time.
local function look(key, _, now, cost, limit, window, refill)
  local stored = redis.call('GET', key)
  if not stored then
    return cost <= limit, limit, 0, now
  end
  local tokens, fraction, last = struct.unpack('<ddd', stored)
  tokens, fraction = math.max(tokens, 0), math.min(fraction, window - 1)
  while now > last do
    -- 71 years at a time, so that the arithmetic stays exact
    local passed = math.min(now - last, 2251799813685248)
    local gained, rest = mul_div(refill, passed, window)
    fraction = fraction + rest
    if fraction >= window then
      gained, fraction = gained + 1, fraction - window
    end
    tokens, last = tokens + gained, last + passed
  end
  if tokens >= limit then
    tokens, fraction = limit, 0
  end
  return cost <= tokens, tokens, fraction, last
end

-- The time to full. It does not grow when the clock runs backwards: the bucket is full again when the key is gone.
local function lifetime(_, limit, window, refill, tokens, fraction)
  local missing = (limit - tokens) * window - fraction
  local micros = math.ceil(missing / refill)
  if missing >= 9007199254740992 then
    micros = micros + 1 -- the quotient is no longer exact: never too short
  end
  return math.min(math.ceil(micros / 1000), 9007199254740991)
end

local function take(key, now, cost, limit, window, refill, tokens, fraction, last)
  tokens = tokens - cost
  redis.call('SET', key, struct.pack('<ddd', tokens, fraction, last),
    'PX', lifetime(now, limit, window, refill, tokens, fraction))
  return tokens, fraction, last
end

local function refund(key, now, cost, limit, window, refill, tokens, fraction, last)
  if tokens + cost < limit then
    return take(key, now, -cost, limit, window, refill, tokens, fraction, last)
  end
  redis.call('DEL', key)
  return limit, 0, last
end
