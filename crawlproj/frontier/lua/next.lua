-- Lease what is due, at most n.
-- KEYS[1] prefix   ARGV worker, n, lease in ms
-- returns ms until something is due (-1: nothing is), the figures, then per lease: token, host, attempts,
-- interval in ms (-1: the default), entry
local worker, n, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
reclaim()

local due = redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', now, 'LIMIT', 0, 64)
for _, packed in ipairs(due) do
  local d = cmsgpack.unpack(packed)  -- token, host, priority, item
  redis.call('ZREM', P .. 'delayed', packed)
  count('queued', -1)
  push(load(d[2]), d[4], d[3], true)
end
for _, host in ipairs(redis.call('ZRANGEBYSCORE', P .. 'snoozed', '-inf', now, 'LIMIT', 0, 64)) do
  load(host)
end
place_all()

local open = ctl.paused ~= 1 and not ctl.stop and ctl.closed ~= 1
local left = math.huge
if (ctl.max_target or 0) > 0 then
  left = ctl.max_target - (tonumber(redis.call('HGET', P .. 'ctr', 'started')) or 0)
end

local leases = {}
while open and n > 0 do
  local popped = redis.call('ZPOPMIN', P .. 'ready')
  local from = 'r'
  if not popped[1] then
    popped, from = redis.call('ZPOPMIN', P .. 'inactive'), 'i'
    if not popped[1] then
      break
    end
  end
  local h = load(popped[1])
  if h.pr >= ctl.floor then
    redis.call('ZADD', P .. 'inactive', popped[2], popped[1])
    h.st = 'i'
    break
  end
  local item, priority = pop(h)
  local entry, attempts, kills, counted = entry_of(item)
  if counted == 0 and left <= 0 then
    push(h, item, priority, true)
    redis.call('ZADD', P .. (from == 'r' and 'ready' or 'inactive'), popped[2], popped[1])
    h.st = from
    break
  end
  if counted == 0 then
    left = left - 1
    count('started', 1)
  end
  local token = redis.call('HINCRBY', P .. 'ctr', 'token', 1)
  local interval = h.iv >= 0 and h.iv or ctl.interval_ms
  redis.call('HSET', P .. 'inproc', token,
    cmsgpack.pack({ h.name, worker, now, attempts, kills, priority, 1 - counted, entry }))
  redis.call('ZADD', P .. 'lease', string.format('%.0f', now + lease_ms), token)
  count('leased', 1)
  h.f = h.f + 1
  h.nd = math.max(h.nd, now + interval)
  leases[#leases + 1] = token
  leases[#leases + 1] = h.name
  leases[#leases + 1] = attempts
  leases[#leases + 1] = h.iv
  leases[#leases + 1] = entry
  n = n - 1
  -- Its session is over: the next host's turn.
  h.over = ctl.balance > 0 and h.sp - h.ss > ctl.balance and redis.call('ZCARD', P .. 'inactive') > 0
  place(h, from)
end

local wait = -1
for _, name in ipairs({ 'snoozed', 'delayed', 'lease' }) do
  local first = redis.call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
  if first[2] then
    local ms = math.max(0, tonumber(first[2]) - now)
    wait = (wait < 0 or ms < wait) and ms or wait
  end
end
return { wait, figures(), leases }
