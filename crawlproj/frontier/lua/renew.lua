-- Keep leases for another while.
-- KEYS[1] prefix   ARGV worker, lease in ms, tokens
-- returns the tokens that are no longer the worker's
local lost = {}
for i = 3, #ARGV do
  local packed = redis.call('HGET', P .. 'inproc', ARGV[i])
  if packed and cmsgpack.unpack(packed)[2] == ARGV[1] then
    redis.call('ZADD', P .. 'lease', 'XX', digits(now + tonumber(ARGV[2])), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
