-- floor(a * b / c) and the remainder, exact although a * b may leave the whole numbers a double can hold.
-- For whole numbers 0 <= a < 2^53, 0 <= b <= 2^51, 0 < c < 2^49. A quotient of 2^53 or more is rounded.
local function mul_div(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % c
    return (product - rest) / c, rest
  end
  local rest = a % c
  local whole = (a - rest) / c * b
  -- rest * b / c < b: the float is off by one at most, and the remainder, worked out in parts of 26 bits, tells.
  local quotient = math.floor(rest * b / c)
  local a0, b0, c0, q0 = rest % 67108864, b % 67108864, c % 67108864, quotient % 67108864
  local a1, b1, c1, q1 = (rest - a0) / 67108864, (b - b0) / 67108864, (c - c0) / 67108864, (quotient - q0) / 67108864
  local upper = (a1 * b1 - q1 * c1) * 67108864 + (a1 * b0 - q1 * c0) + (a0 * b1 - q0 * c1)
  rest = upper * 67108864 + (a0 * b0 - q0 * c0)
  if rest < 0 then
    return whole + quotient - 1, rest + c
  elseif rest >= c then
    return whole + quotient + 1, rest - c
  end
  return whole + quotient, rest
end
