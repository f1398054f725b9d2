-- Leave a domain alone for a while, because it asked for that.
--
-- KEYS[1]  as in reserve.lua
-- ARGV     for how long, ms
-- returns  1
--
-- A shorter while does not take a longer one back. What had been reserved before takes place.

local clock = redis.call('TIME')
local ends = math.ceil((clock[1] * 1000000 + clock[2]) / 1000) + tonumber(ARGV[1])
if ends > tonumber(redis.call('HGET', KEYS[1], 'rest_until') or 0) then
  redis.call('HSET', KEYS[1], 'rest_until', string.format('%.0f', ends))
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', ends))
end
return 1
