-- One limit, one call. Follows the algorithm's own file, which defines look, take, refund and lifetime.
--
-- KEYS[1]  the limit's key
-- ARGV     op ("take", "peek" or "refund"), now (microseconds since the epoch; "" for the server's own TIME),
--          cost (units, at least 1), limit (units), window (microseconds), refill (token bucket only)
-- reply    {allowed (1 or 0), now, and up to four numbers of the state after the call: see the algorithm's file}
local key, op, now, cost = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window, refill = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local fits, a, b, c, d, e = look(key, op, now, cost, limit, window, refill)
if op == 'refund' then
  a, b, c, d = refund(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and fits then
  a, b, c, d = take(key, now, cost, limit, window, refill, a, b, c, d, e)
elseif op == 'take' and redis.call('PTTL', key) == -1 then
  -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
  redis.call('PEXPIRE', key, lifetime(now, limit, window, refill, a, b, c, d))
end
return {fits and 1 or 0, now, a, b, c, d}
