-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "". `stamp` is `now` as text:
-- numbers passed to a command are written slowly.
local stamp = ARGV[1]
if stamp == '' then
  local time = redis.call('TIME')
  stamp = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = stamp + 0
