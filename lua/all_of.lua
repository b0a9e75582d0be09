-- Several limits, one verdict: all of them count the call, or none does. An algorithm's file is put in here as a function
-- that looks, and returns how to go on; see check.lua for its parts.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (now.lua), op ("take", "peek" or "refund"), cost, taken (as in check.lua), memory (microseconds an id is
--          remembered for; "" without an id), then for each limit: algorithm, kind, limit, window, refill (as in
--          check.lua). Kinds: "binding": its refusal refuses the call; "shadow": it counts when it fits, but refuses
--          nothing; "peek": it is only looked at, for a cost of 1.
-- reply    {now, then for each limit: allowed (1 or 0), when a block ends (0: none), four numbers of the state after,
--          missing ones `now`: see the algorithm's file}
local look = {}
@looks@

local op, cost, taken, memory = ARGV[2], ARGV[3] + 0, tonumber(ARGV[4]), ARGV[5]
local count = (#ARGV - 5) / 5
local id, again = KEYS[count + 1], false
if id then
  local first = redis.call('GET', id)
  again = first and now < first + memory
end

-- First every limit looks, then all take or none.
local parts, go = {}, true
for i = 1, count do
  local p = 5 * i + 1
  local kind = ARGV[p + 1]
  local only_looks = kind == 'peek'
  local part = look[ARGV[p]](KEYS[i], ARGV[p + 2] + 0, ARGV[p + 3], ARGV[p + 4], only_looks and 1 or cost,
    only_looks and 'peek' or op)
  part.takes = op == 'take' and not only_looks
  if part.takes and again then
    -- counted before, and the answer is that of then, but for a block
    part.fits, part.takes = not (part.blocked and now < part.blocked), false
  elseif part.takes and not part.fits and kind == 'binding' then
    go = false
  end
  parts[i] = part
end

local reply, counted = {now}, false
for i = 1, count do
  local part = parts[i]
  if op == 'refund' then
    local _, refund = part.seldom()
    refund(taken)
  elseif part.takes and part.fits and go then
    part.take()
    counted = true
  elseif part.takes and redis.call('PTTL', KEYS[i]) == -1 then
    -- Somebody removed the lifetime: a client that never comes back must not stay for ever.
    redis.call('PEXPIRE', KEYS[i], (part.seldom())())
  end
  local a, b, c, d = part.state()
  local r = 6 * i - 4
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = part.fits and 1 or 0, part.blocked or 0, a, b
  reply[r + 4], reply[r + 5] = c or now, d or now
end
if id and counted then
  redis.call('SET', id, stamp, 'PX', math.ceil(memory / 1000))
end
return reply
