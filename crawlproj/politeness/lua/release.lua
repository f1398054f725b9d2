-- Take a request out of a domain's count.
--
-- KEYS[1], KEYS[2]  as in reserve.lua
-- ARGV     member, its start in ms, its interval in ms, how much later than that it went out, at
--          most, in ms; -1: it never went out, and the start is given back unless another follows
-- returns  how many are in flight now

local start, late = tonumber(ARGV[2]), tonumber(ARGV[4])

redis.call('ZREM', KEYS[2], ARGV[1])
local count = redis.call('ZCARD', KEYS[2])
local last = redis.call('HGET', KEYS[1], 'last_request_at')
if not last then
  return count -- forgotten meanwhile, which it only is when it no longer matters
end
local real = tonumber(last)
if late > 0 then
  local clock = redis.call('TIME')
  local now = math.ceil((clock[1] * 1000000 + clock[2]) / 1000)
  real = math.max(real, math.min(start + late, now)) -- it is back, so it went out before now
elseif late < 0 and real == start then
  real = start - tonumber(ARGV[3])
end
redis.call('HSET', KEYS[1], 'in_flight_count', count, 'last_request_at', string.format('%.0f', real))
return count
