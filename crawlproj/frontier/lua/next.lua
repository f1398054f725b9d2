-- Lease what is due, at most n.
-- KEYS[1] prefix   ARGV worker, n, lease in ms
-- returns ms until something is due (-1: nothing is, -2: though something is queued, no host leads to
-- it), the figures, then per lease: token, host, attempts, interval in ms (-1: the default), entry
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

-- A token is never given twice, not even by a server that has lost its last second.
local function new_token()
  count('token', math.max(1, now * 1000 - (ctr.token or 0)))
  return digits(ctr.token)
end

local open = ctl.paused ~= 1 and not ctl.stop and ctl.closed ~= 1
local left = (ctl.max_target or 0) > 0 and ctl.max_target - (ctr.started or 0) or math.huge

local leases, dry = {}, false
while open and n > 0 do
  local from = 'r'
  local popped = redis.call('ZPOPMIN', P .. 'ready')
  if not popped[1] then
    from = 'i'
    popped = redis.call('ZPOPMIN', P .. 'inactive')
    if not popped[1] then
      dry = true
      break
    end
  end
  local h = load(popped[1])
  local item, priority = pop(h)
  local entry, attempts, kills, counted
  if item then
    entry, attempts, kills, counted = entry_of(item)
  end
  if item and counted == 0 and left <= 0 then
    push(h, item, priority, true)
    redis.call('ZADD', P .. STRUCTURE[from][2], popped[2], popped[1])
    break
  end
  if item then
    left = left - (1 - counted)
    count('started', 1 - counted)
    count('leased', 1)
    local token = new_token()
    redis.call('HSET', P .. 'inproc', token,
      cmsgpack.pack({ h.name, worker, now, attempts, kills, priority, 1 - counted, entry }))
    redis.call('ZADD', P .. 'lease', digits(now + lease_ms), token)
    h.f = h.f + 1
    h.nd = now + (h.iv >= 0 and h.iv or ctl.interval_ms)
    for _, part in ipairs({ token, h.name, attempts, h.iv, entry }) do
      leases[#leases + 1] = part
    end
    n = n - 1
  end
  h.st = ''
  place(h)
end

local wait = -1
for _, name in ipairs({ 'snoozed', 'delayed', 'lease' }) do
  local first = redis.call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
  if first[2] then
    local ms = math.max(0, tonumber(first[2]) - now)
    wait = (wait < 0 or ms < wait) and ms or wait
  end
end
local f = settle()
if dry and wait < 0 and f[1] > f[2] then
  wait = -2
end
return { wait, f, leases }
