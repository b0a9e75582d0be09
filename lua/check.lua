-- One limit, one call. Follows now.lua and the algorithm's own file, which defines look, take, lifetime, and others:
-- what is seldom asked for is made only then.
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost (units, 1 when
--          left out; for "block" its length in microseconds), op ("take" when left out or "", "peek", "refund" or
--          "block"), taken (refund: when the units were taken; "" when that is not known), span (microseconds an id is
--          remembered for). What has its default is left out from the end.
-- reply    {1 (allowed) or 0, up to four numbers of the state after the call: see the algorithm's file}; or, where the
--          server's time or a block is to be told, {3 or 2, now, when a block ends (0: none), the same numbers}
local args = ARGV
local key, limit, window, refill, cost, op = KEYS[1], args[2] + 0, args[3] + 0, args[4], args[5], args[6]
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

local fits, blocked, a, b, c, d, e, f = look(key, cost, limit, window, refill, op)
if again then
  fits = true -- counted before, and the answer is that of then
elseif op == 'take' then
  if fits then
    a, b, c, d = take(key, cost, limit, window, refill, blocked, a, b, c, d, e, f)
    blocked = nil
    if id then
      redis.call('SET', id, stamp, 'PX', math.ceil(args[8] / 1000))
    end
  elseif redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime(limit, window, refill, blocked, a, b, c))
  end
elseif op ~= 'peek' then
  local refund, block = others()
  if op == 'refund' then
    a, b, c, d = refund(key, cost, limit, window, refill, blocked, tonumber(args[7]), a, b, c, d, e, f)
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    a, b, c, d = block(key, limit, window, refill, blocked, a, b, c, d, e, f)
  end
end

if blocked or args[1] == '' then
  return {fits and 3 or 2, now, blocked or 0, a, b, c, d}
end
return {fits and 1 or 0, a, b, c, d}
