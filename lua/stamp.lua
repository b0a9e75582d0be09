-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  local micros = time[2]
  stamp = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
end
local now = stamp + 0
