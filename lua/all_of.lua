-- Several limits, one verdict: all of them count the call, or none does. Follows one maker for each algorithm's file.
--
-- KEYS     one key for each limit, all in one slot
-- ARGV     now (microseconds since the epoch; "" for the server's own TIME), then for each key: algorithm, op ("take",
--          "peek" or "refund"), "1" if its refusal refuses the call or "0" if not, cost, limit, window, refill
-- reply    {now, then for each key: fits (1 or 0) and four numbers of the state after the call}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local parts, go = {}, true
for i, key in ipairs(KEYS) do
  local p = 7 * i - 5
  local part = {op = ARGV[p + 1], cost = tonumber(ARGV[p + 3]), limit = tonumber(ARGV[p + 4]),
    window = tonumber(ARGV[p + 5]), refill = tonumber(ARGV[p + 6])}
  local look
  look, part.take, part.refund, part.lifetime = make[ARGV[p]]()
  part.fits, part.a, part.b, part.c, part.d, part.e =
    look(key, part.op, now, part.cost, part.limit, part.window, part.refill)
  if part.op == 'take' and not part.fits and ARGV[p + 2] == '1' then
    go = false
  end
  parts[i] = part
end

local reply = {now}
for i, key in ipairs(KEYS) do
  local p = parts[i]
  if p.op == 'refund' then
    p.a, p.b, p.c, p.d = p.refund(key, now, p.cost, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d, p.e)
  elseif p.op == 'take' and p.fits and go then
    p.a, p.b, p.c, p.d = p.take(key, now, p.cost, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d, p.e)
  elseif p.op == 'take' and not p.fits and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, p.lifetime(now, p.limit, p.window, p.refill, p.a, p.b, p.c, p.d))
  end
  local r = 5 * i - 3
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = p.fits and 1 or 0, p.a, p.b, p.c or 0, p.d or 0
end
return reply
