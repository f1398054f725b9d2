-- Read entries of a start-URL key without taking them.
-- KEYS[1] the key: a list, a set or a sorted set (highest score first)   ARGV[1] how many
-- returns the entries
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'list' then
  return redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
elseif kind == 'set' then
  return redis.call('SRANDMEMBER', KEYS[1], ARGV[1])
elseif kind == 'zset' then
  return redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1)
end
return {}
