-- Say when a request went out, or take it out of a domain's count.
--
-- KEYS  as in reserve.lua
-- ARGV     member, its start in ms, its interval in ms, how much later than that it went out, at
--          most, in ms, -1: it never went out, and the start is given back unless another follows;
--          1 if it is still under way
-- returns  how many are in flight now

local late = tonumber(ARGV[4])

if ARGV[5] ~= '1' then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
local count = redis.call('ZCARD', KEYS[2])
local who, reserved = string.match(redis.call('GET', KEYS[3]) or '', '^(%S+) (%d+)')
if who == ARGV[1] then
  redis.call('DEL', KEYS[3])
end
local last = redis.call('HGET', KEYS[1], 'last_request_at')
if not last then
  return count -- forgotten meanwhile, which it only is when it no longer matters
end
local real = tonumber(last)
if late > 0 then
  local clock = redis.call('TIME')
  local now = math.ceil((clock[1] * 1000000 + clock[2]) / 1000)
  real = math.max(real, math.min(tonumber(ARGV[2]) + late, now)) -- it was sent, so it went out before now
elseif late < 0 and who == ARGV[1] and real == tonumber(reserved) then
  real = real - tonumber(ARGV[3])
end
redis.call('HSET', KEYS[1], 'in_flight_count', count, 'last_request_at', string.format('%.0f', real))
return count
