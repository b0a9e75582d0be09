-- Several limits, one verdict: all of them count the call, or none does. An algorithm's file is put in here as a function
-- that looks, asks the limits after it, and then takes or does not; see check.lua for the file's parts.
--
-- KEYS     one key for each limit, all in one slot; and, for a call with an id, one more where that id is remembered
-- ARGV     now (stamp.lua), op ("take", "peek" or "refund"), cost, taken (as in check.lua), memory (microseconds an id is
--          remembered for; "" without an id), then for each limit: algorithm, kind, limit, window, refill (as in
--          check.lua). Kinds: "binding": its refusal refuses the call; "shadow": it counts when it fits, but refuses
--          nothing; "peek": it is only looked at, for a cost of 1.
-- reply    {now, then for each limit its state after the call: see the algorithm's file}. Where it is told by one number
--          n below 2^53 ("short"), n when the limit allows the call and -1 - n when it does not; a refusal told by two
--          times ("full"), as a text with a space between them; else {1 (allowed) or 0, and 4 more when the call was
--          counted before, when a block ends (0: none), four numbers of the state, missing ones `now`}
local whole_op, whole_cost = ARGV[2], ARGV[3] + 0
local limits = (#ARGV - 5) / 5
local id, again = KEYS[limits + 1], false
if id and whole_op == 'take' then
  local first = redis.call('GET', id)
  again = first and now < first + ARGV[5]
end

local reply, look, some_took = {now}, {}, false

-- Asks the limits from the i-th on; `go`: whether those before it let the call pass. Returns whether all of them do.
local function ask(i, go)
  if i > limits then
    return go
  end
  reply[i + 1] = false -- in its place, before those after it
  local p = 5 * i + 1
  return look[ARGV[p]](i, go, KEYS[i], ARGV[p + 1], ARGV[p + 2] + 0, ARGV[p + 3], ARGV[p + 4])
end
@looks@

ask(1, true)
if id and some_took then
  redis.call('SET', id, stamp, 'PX', math.ceil(ARGV[5] / 1000))
end
return reply
