-- Several limits, one verdict: all of them count the call, or none does. Follows now.lua and `make`: for each algorithm a
-- function that returns what its file defines.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (now.lua), op ("take", "peek" or "refund"), cost, taken (as in check.lua), span (microseconds an id is
--          remembered for; "" without an id), then for each limit: algorithm, kind, limit, window, refill (as in
--          check.lua). Kinds: "binding": its refusal refuses the call; "shadow": it counts when it fits, but refuses
--          nothing; "peek": it is only looked at, for a cost of 1.
-- reply    {now, then for each limit: allowed (1 or 0), when a block ends (0: none), four numbers of the state after,
--          unused ones `now`: see the algorithm's file}
--
-- First every limit looks, then all take or none. A part's a to f are what its algorithm's look returns.
local op, cost, taken, span = ARGV[2], ARGV[3] + 0, tonumber(ARGV[4]), ARGV[5]
local count = (#ARGV - 5) / 5
local id, again = KEYS[count + 1], false
if id then
  local first = redis.call('GET', id)
  again = first and now < first + span
end

local parts, go = {}, true
for i = 1, count do
  local p = 5 * i + 1
  local part = {op = op, cost = cost, limit = ARGV[p + 2] + 0, window = ARGV[p + 3] + 0, refill = ARGV[p + 4]}
  if ARGV[p + 1] == 'peek' then
    part.op, part.cost = 'peek', 1
  end
  local look
  look, part.take, part.lifetime, part.others = make[ARGV[p]]()
  part.fits, part.blocked, part.a, part.b, part.c, part.d, part.e, part.f =
    look(KEYS[i], part.cost, part.limit, part.window, part.refill, part.op)
  if part.op == 'take' and again then
    part.fits, part.op = true, 'peek' -- counted before, and the answer is that of then
  elseif part.op == 'take' and not part.fits and ARGV[p + 1] == 'binding' then
    go = false
  end
  parts[i] = part
end

local reply, counted = {now}, false
for i = 1, count do
  local key, p = KEYS[i], parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d =
      p.others()(key, p.cost, p.limit, p.window, p.refill, p.blocked, taken, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and p.fits and go then
    counted = true
    p.a, p.b, p.c, p.d = p.take(key, p.cost, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, p.lifetime(p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c))
  end
  local r = 6 * i - 4
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = p.fits and 1 or 0, p.blocked or 0, p.a, p.b
  reply[r + 4], reply[r + 5] = p.c or now, p.d or now
end
if id and counted then
  redis.call('SET', id, stamp, 'PX', math.ceil(span / 1000))
end
return reply
