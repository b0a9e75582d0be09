-- The time is ARGV[1], microseconds since the epoch, or the server's own where that is "".
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
