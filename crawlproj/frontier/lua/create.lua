-- Make a frontier, or find that it is there.
-- KEYS[1] prefix   ARGV name, value, … of `ctl`; the first is `shards`, fixed for its life
-- returns the number of shards it has
local key = KEYS[1] .. 'ctl'
redis.call('HSETNX', key, ARGV[1], ARGV[2])
for i = 3, #ARGV, 2 do
  redis.call('HSET', key, ARGV[i], ARGV[i + 1])
end
return tonumber(redis.call('HGET', key, ARGV[1]))
