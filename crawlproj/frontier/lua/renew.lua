-- Keep leases for another while.
-- KEYS[1] prefix   ARGV worker, lease in ms, tokens
-- returns the tokens that are no longer the worker's
local lost, deadlines = {}, {}
for i = 3, #ARGV do
  local packed = redis.call('HGET', P .. 'inproc', ARGV[i])
  if packed and select(2, host_and_worker(packed)) == ARGV[1] then
    append(deadlines, digits(now + tonumber(ARGV[2])), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
call_with(deadlines, 'ZADD', P .. 'lease')
return lost
