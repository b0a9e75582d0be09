-- Several limits, one verdict: all of them count the call, or none does. Follows `make`: for each algorithm a function
-- that returns what its file defines.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (microseconds since the epoch; "" for the server's own TIME), span (microseconds an id is remembered
--          for; "" without an id), then for each limit: algorithm, op ("take", "peek" or "refund"), "1" if its refusal
--          refuses the call or "0" if not, cost, limit, window, refill, taken (as in check.lua)
-- reply    {now, then for each limit: allowed (1 or 0), when a block ends (0: none), four numbers of the state after,
--          unused ones 0: see the algorithm's file}
--
-- First every limit looks, then all take or none. A part's a to f are what its algorithm's look returns.
local now, span = tonumber(ARGV[1]), ARGV[2]
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local count = (#ARGV - 2) / 8
local id, again = KEYS[count + 1], false
if id then
  local first = redis.call('GET', id)
  again = first and now < first + span
end

local parts, go = {}, true
for i = 1, count do
  local p = 8 * i - 5
  local part = {op = ARGV[p + 1], cost = tonumber(ARGV[p + 3]), limit = tonumber(ARGV[p + 4]),
    window = tonumber(ARGV[p + 5]), refill = tonumber(ARGV[p + 6]), taken = tonumber(ARGV[p + 7])}
  local look
  look, part.take, part.refund, part.lifetime = make[ARGV[p]]()
  part.fits, part.blocked, part.a, part.b, part.c, part.d, part.e, part.f =
    look(KEYS[i], part.op, now, part.cost, part.limit, part.window, part.refill)
  if part.op == 'take' and again then
    part.fits, part.op = true, 'peek' -- counted before, and the answer is that of then
  elseif part.op == 'take' and not part.fits and ARGV[p + 2] == '1' then
    go = false
  end
  parts[i] = part
end

local reply, counted = {now}, false
for i = 1, count do
  local key, p = KEYS[i], parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d =
      p.refund(key, now, p.cost, p.limit, p.window, p.refill, p.blocked, p.taken, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and p.fits and go then
    counted = true
    p.a, p.b, p.c, p.d = p.take(key, now, p.cost, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d, p.e, p.f)
  elseif p.op == 'take' and redis.call('PTTL', key) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', key, p.lifetime(now, p.limit, p.window, p.refill, p.blocked, p.a, p.b, p.c, p.d))
  end
  local r = 6 * i - 4
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = p.fits and 1 or 0, p.blocked or 0, p.a, p.b
  reply[r + 4], reply[r + 5] = p.c or 0, p.d or 0
end
if id and counted then
  redis.call('SET', id, string.format('%.0f', now), 'PX', math.ceil(span / 1000))
end
return reply
