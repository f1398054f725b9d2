-- Give leases back that were never started: they count as if they had not been taken.
-- KEYS[1] prefix   ARGV worker, tokens
-- returns how many were the worker's to give
local given = 0
for i = 2, #ARGV do
  local packed = redis.call('HGET', P .. 'inproc', ARGV[i])
  if packed and cmsgpack.unpack(packed)[2] == ARGV[1] then
    local lease = take_lease(ARGV[i])
    push(lease.host, item_of(lease.entry, lease.attempts, lease.kills, 1 - lease.counted), lease.priority, true)
    count('started', -lease.counted)
    given = given + 1
  end
end
settle()
return given
