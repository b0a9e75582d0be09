-- One limit, one call. An algorithm's file has three parts, which lua/embed.cmake puts in here: look (what there is, and
-- whether the call fits), take (count it), and seldom (functions for what is seldom asked).
--
-- KEYS[1]  the limit's key
-- KEYS[2]  only for a call with an id: where that id is remembered; a refund forgets it
-- ARGV     now (now.lua, stamp.lua), limit (units), window (microseconds), refill (token bucket only, else ""), cost
--          (units, 1 when left out; for "block" its length in microseconds), op ("take" when left out or "", "peek",
--          "refund" or "block"), taken (refund: when the units were taken; "" when that is not known), memory
--          (microseconds an id is remembered for). What has its default is left out from the end.
-- reply    the state after the call: see the algorithm's file. Where it is told by one number n below 2^53 ("short"), n
--          when the call is allowed and -1 - n when it is not. A log may tell a refusal by two times ("full"), a text
--          with a space between them. Where `now` is the server's time, either is a text that begins with TIME's two
--          numbers; but {now, n} where n has more than 14 digits.
--          Else {1 (allowed) or 0, the numbers of the state}; or, where the server's time, a block or that the call was
--          counted before is to be told, {that and 2 more, and 4 more when it was counted before, now, when a block ends
--          (0: none), the numbers of the state}. A table costs the server as much as a command or two, so there is none
--          where one number or a text will do.
local args = ARGV
local key, limit, span, refill, cost, op = KEYS[1], args[2] + 0, args[3], args[4], args[5], args[6]
local window = span + 0 -- `span` is the same as text
cost = cost and cost + 0 or 1
op = op and op ~= '' and op or 'take'

local id, again = KEYS[2], false
if id and op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + args[8]
end

@look@
if again then
  fits = not (blocked and now < blocked) -- counted before, and the answer is that of then, but for a block
elseif op == 'take' and fits then
@take@
  blocked = nil -- it is over
  if id then
    redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(args[8] / 1000))
  end
elseif op ~= 'peek' and (op ~= 'take' or redis.call('PTTL', key) == -1) then
@seldom@
  if op == 'take' then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, lifetime())
  elseif op == 'refund' then
    refund(tonumber(args[7]))
    if id then
      redis.call('DEL', id)
    end
  else
    blocked = math.max(now + cost, blocked or now)
    blocked = blocked == 0 and 1 or blocked -- 0: none
    block()
  end
end

@full@
local short = not blocked and not again and @short@
if short and short < 9007199254740992 then
  short = fits and short or -1 - short
  if not time then
    return short
  elseif short < 100000000000000 and short > -100000000000000 then -- Lua writes 14 digits
    return time[1] .. ' ' .. time[2] .. ' ' .. short
  end
  return {now, short}
elseif blocked or time or again then
  return {(fits and 3 or 2) + (again and 4 or 0), now, blocked or 0, @state@}
end
return {fits and 1 or 0, @state@}
