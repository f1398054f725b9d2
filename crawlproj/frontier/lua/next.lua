-- Lease what is due, at most n.
-- KEYS[1] prefix   ARGV worker, n, lease in ms, how many may be new targets (-1: as many as max_target says)
-- returns ms until something is due (-1: nothing is, -2: though something is queued, no host leads to
-- it), the figures, then per lease: token, host, attempts, interval in ms (-1: the crawl's), the host's own
-- knobs as JSON (nothing: it has none), entry
local worker, n, lease_ms, left = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local LOOKS = 256  -- hosts looked at beyond those leased: they have been retired since they were queued
reclaim()

local due = redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', now, 'LIMIT', 0, 64)
for _, packed in ipairs(due) do
  local d = cmsgpack.unpack(packed)  -- token, host, priority, item
  redis.call('ZREM', P .. 'delayed', packed)
  count('queued', -1)
  push(d[2], d[4], d[3], true)
end
for _, host in ipairs(redis.call('ZRANGEBYSCORE', P .. 'snoozed', '-inf', now, 'LIMIT', 0, 64)) do
  load(host)
end
place_all()

-- A token is never given twice, not even by a server that has lost its last second. It tells its partition.
local function new_token()
  local token = math.max((ctr.token or 0) + 1, now * 1000)
  token = token + (ctl.partition - token) % ctl.partitions
  ctr.token, counted = token, true
  return digits(token)
end

-- With nothing left to do, a crawl that is to pause at its finish does, once.
local function at_finish()
  return ctl.pause_at_finish == 1 and not ctl.may_finish and not ctl.stop and ctl.paused ~= 1
    and (ctr.started or 0) > 0 and (ctr.leased or 0) == 0 and (ctr.queued or 0) == (ctr.held or 0)
end
if at_finish() then
  ctl.at_finish = 1
  switch('paused', 1)
end

local open = ctl.paused ~= 1 and not ctl.stop and ctl.closed ~= 1 and not ctl.closing
local throttled = ctl.total_bandwidth_kb > 0 and (ctr.wire_free or 0) > now
if left < 0 then
  left = ctl.max_target > 0 and ctl.max_target - (ctr.started or 0) or math.huge
end

local leases, dry = {}, false
while open and not throttled and n > 0 and LOOKS > 0 do
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
  ready = nil
  local h = load(popped[1])
  local item, priority
  local gone = is_retired(h) or h.f >= knob(h, 'in_flight')  -- a knob was turned since
  if not gone then
    item, priority = pop(h)
  end
  local entry, attempts, kills, counted
  if item then
    entry, attempts, kills, counted = entry_of(item)
  end
  if item and counted == 0 and left <= 0 then
    push(h.name, item, priority, true)
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
    local interval, own = interval_of(h)
    h.nd = math.max(h.nd, now + interval)
    local i = #leases
    leases[i + 1], leases[i + 2], leases[i + 3] = token, h.name, attempts
    leases[i + 4], leases[i + 5] = own and interval or -1, h.k and cjson.encode(h.k) or ''
    leases[i + 6] = entry
    n = n - 1
  else
    LOOKS = LOOKS - 1
  end
  h.st = ''
  place(h)
end

local wait = -1
local function due_in(at)
  local ms = math.max(0, at - now)
  wait = (wait < 0 or ms < wait) and ms or wait
end
for _, name in ipairs({ 'snoozed', 'delayed', 'lease' }) do
  local first = redis.call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
  if first[2] then
    due_in(tonumber(first[2]))
  end
end
if throttled then
  wait = ctr.wire_free - now
elseif LOOKS == 0 then
  wait = 0
end
local f = settle()
if dry and wait < 0 and f[1] > f[2] then
  wait = -2
end
return { wait, f, leases }
