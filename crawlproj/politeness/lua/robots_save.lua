-- Keep what a worker found and give its lock back.
--
-- KEYS[1], KEYS[2]  as in robots_look.lua
-- ARGV     token, what was found, how long it is good for in ms; 0: nothing was found
-- returns  1

if tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('DEL', KEYS[2])
end
return 1
