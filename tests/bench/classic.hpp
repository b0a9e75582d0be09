// The scripts that everyone copies, written from their lists of commands: what ours are measured against.
#pragma once

#include <string_view>

namespace bench::classic {

// KEYS[1]; ARGV: now (us), window (us), limit, member
inline constexpr std::string_view sliding_log = R"lua(
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
local used = redis.call('ZCARD', KEYS[1])
if used < tonumber(ARGV[3]) then
  redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] / 1000))
  return {1, ARGV[3] - used - 1, 0}
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {0, 0, oldest[2] + ARGV[2] - ARGV[1]}
)lua";

// KEYS: the current window's counter, the previous one's; ARGV: limit, window (s), share of the previous window left
inline constexpr std::string_view two_key_counter = R"lua(
local current = tonumber(redis.call('GET', KEYS[1]) or '0')
local previous = tonumber(redis.call('GET', KEYS[2]) or '0')
local used = current + math.floor(previous * ARGV[3])
if used >= tonumber(ARGV[1]) then
  return {0, 0}
end
local now = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2] * 2)
return {1, ARGV[1] - used - 1}
)lua";

// KEYS[1]; ARGV: capacity, tokens a second, now (s, with a fraction), cost
inline constexpr std::string_view token_bucket = R"lua(
local state = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local capacity, rate, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, last = tonumber(state[1]) or capacity, tonumber(state[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= cost
if allowed then
  tokens = tokens - cost
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'time', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate * 1000))
return {allowed and 1 or 0, math.floor(tokens)}
)lua";

// KEYS[1]; ARGV: limit, window (ms): what a fixed window is usually made of
inline constexpr std::string_view fixed_window = R"lua(
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {used <= tonumber(ARGV[1]) and 1 or 0, math.max(0, ARGV[1] - used)}
)lua";

}  // namespace bench::classic
