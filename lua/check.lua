-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund, block and lifetime.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     op ("take", "peek", "refund" or "block"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1; for "block" its length in microseconds), limit (units), window (microseconds),
--          refill (token bucket only, else 0), taken (refund: when the units were taken; "" when that is not known),
--          span (microseconds an id is remembered for; "" without KEYS[2])
-- reply    {allowed (1 or 0), now, when a block ends (0: none), and up to four numbers of the state after the call: see
--          the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local again = false
if KEYS[2] and op == 'take' then
  local first = redis.call('GET', KEYS[2])
  again = first and now < first + ARGV[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, op, now, cost, limit, window, refill)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, now, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    if KEYS[2] then
      redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', math.ceil(ARGV[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, blocked, a, b, c, d))
  end
elseif op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, blocked, tonumber(ARGV[7]), a, b, c, d, e, f)
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
elseif op == 'block' then
  blocked = math.max(now + cost, blocked or now)
  a, b, c, d = block(key, now, limit, window, refill, blocked, a, b, c, d, e, f)
end
return {fits and 1 or 0, now, blocked or 0, a, b, c, d}
