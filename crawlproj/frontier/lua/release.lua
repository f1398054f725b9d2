-- Give leases back that were never started: they count as if they had not been taken.
-- KEYS[1] prefix   ARGV worker, 1 if as many others may start in their place, tokens
-- returns how many were the worker's to give
local own = {}
for i = 3, #ARGV do
  local packed = redis.call('HGET', P .. 'inproc', ARGV[i])
  if packed and select(2, host_and_worker(packed)) == ARGV[1] then
    own[#own + 1] = ARGV[i]
  end
end
local leases = take_leases(own)
local given = 0
for i = #own, 1, -1 do  -- to the head, so that the first is the first again
  local lease = leases[own[i]]
  if lease then
    leases[own[i]] = nil
    local item = item_of(lease.entry, lease.attempts, lease.kills, 1 - lease.counted)
    push(lease.host, { item }, lease.priority, true, lease.counted)
    count('started', -lease.counted)
    given = given + 1
  end
end
-- A stop for as many targets as may be is none when there are fewer after all.
if given > 0 and ARGV[2] == '1' and ctl.stop == TARGETS and (ctr.started or 0) < ctl.max_target then
  switch('stop', nil)
end
settle()
return given
