-- The time is ARGV[1], microseconds since the epoch, or where that is "" the server's own: then `time` holds its seconds
-- and microseconds as text.
local now, time = ARGV[1], nil
if now == '' then
  time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
