-- Drop one entry of a start-URL key, whose requests have been let in.
-- KEYS[1] the key   ARGV[1] the entry as it was read
-- returns 1, or 0 if another worker has dropped it
local REMOVE = { list = { 'LREM', 1 }, set = { 'SREM' }, zset = { 'ZREM' } }
local how = REMOVE[redis.call('TYPE', KEYS[1]).ok]
if not how then
  return 0
end
return how[2] and redis.call(how[1], KEYS[1], how[2], ARGV[1]) or redis.call(how[1], KEYS[1], ARGV[1])
