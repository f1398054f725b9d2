-- Keep a request counted whose download takes long.
--
-- KEYS[1], KEYS[2]  as in reserve.lua
-- ARGV     member, hold ms
-- returns  1, or 0 when it no longer counts

local hold = tonumber(ARGV[2])
local clock = redis.call('TIME')
local ends = math.ceil((clock[1] * 1000000 + clock[2]) / 1000) + hold

if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[2], ends, ARGV[1])
for i = 1, 2 do
  if redis.call('PTTL', KEYS[i]) < hold then
    redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', ends))
  end
end
return 1
