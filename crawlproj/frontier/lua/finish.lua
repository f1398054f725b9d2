-- End a lease: its outlinks enter, it leaves, its host is timed anew, in one step.
-- KEYS[1] prefix   ARGV token, outcome, asked wait in ms (0: none), incident (1: the whole host waits),
-- jitter in thousandths, number of result fingerprints, these, then links as in schedule.lua
-- Outcome: s succeeded, f failed for good, r another attempt, d disregarded, k dead.
-- returns 1, or 0 when the token is stale and nothing was changed; how many links were new; the figures
local token, outcome = ARGV[1], ARGV[2]
local asked, incident, jitter = tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5]) / 1000
local results = tonumber(ARGV[6])
local lease = take_lease(token)
if not lease then
  count('late', 1)
  return { 0, 0, settle() }
end
local h = lease.h
if incident then
  back_off(h, asked, jitter, lease.at)
end
if outcome == 's' then
  h.bo = 0
  h.sp = h.sp + 1
  count('succeeded', 1)
elseif outcome == 'f' then
  h.sp = h.sp + 1 + ctl.penalty
  h.er = h.er + 1
  count('failed', 1)
elseif outcome == 'd' then
  count('disregarded', 1)
elseif outcome == 'k' then
  bury(lease.host, lease.entry, 'unreadable', lease.attempts)
elseif outcome == 'r' then
  local item = item_of(lease.entry, lease.attempts + 1, lease.kills, 1)
  count('retried', 1)
  if incident then
    push(h, item, lease.priority, true)
  else
    local wait = asked > 0 and asked or ctl.retry_ms * 2 ^ math.min(lease.attempts, 30) * (0.75 + jitter / 2)
    redis.call('ZADD', P .. 'delayed', digits(now + math.min(wait, ctl.retry_max_ms)),
      cmsgpack.pack({ token, lease.host, lease.priority, item }))
    count('queued', 1)
  end
end
for i = 7, 6 + results do
  count('results', redis.call('SADD', P .. 'r:' .. shard(ARGV[i]), ARGV[i]))
end
local added = admit(7 + results)
return { 1, added, settle() }
