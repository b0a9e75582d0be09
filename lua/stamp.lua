-- As now.lua; and `stamp` is `now` as text, since numbers passed to a command are written slowly.
local stamp, time = ARGV[1], nil
if stamp == '' then
  time = redis.call('TIME')
  local micros = time[2]
  stamp = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
end
local now = stamp + 0
