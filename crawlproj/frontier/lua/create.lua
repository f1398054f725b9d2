-- Make a frontier, or find that it is there.
-- KEYS[1] prefix   ARGV name, value, … of `ctl`; the first is `shards`, fixed for its life
-- returns the number of shards it has; if it is another one, nothing is changed
local key = KEYS[1] .. 'ctl'
redis.call('HSETNX', key, ARGV[1], ARGV[2])
local shards = redis.call('HGET', key, ARGV[1])
if shards == ARGV[2] then
  redis.call('HSET', key, unpack(ARGV))
end
return tonumber(shards)
