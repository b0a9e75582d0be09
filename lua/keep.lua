-- Writes a limit's whole state and its lifetime (ms) in one step, or deletes a state that says nothing. A block is the
-- last eight bytes of the value: a little-endian double, the time it ends (microseconds). It goes with the next call that
-- is counted.
local function keep(value, life)
  if blocked then
    value = value .. struct.pack('<d', blocked)
  end
  if life > 0 then
    redis.call('SET', key, value, 'PX', life)
  else
    redis.call('DEL', key)
  end
end
