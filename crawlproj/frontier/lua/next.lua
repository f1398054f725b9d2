-- Lease what is due, at most n.
-- KEYS[1] prefix   ARGV worker, n, lease in ms, how many may be new targets (-1: as many as max_target says), the
-- run that the worker is at (0: whichever)
-- returns ms until something is due (-1: nothing is, -2: though something is queued, no host leads to
-- it), the figures, then per lease: token, host, attempts, interval in ms (-1: the crawl's), the host's own
-- knobs as JSON (nothing: it has none), entry
local worker, n, lease_ms, left = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if ctl.run > tonumber(ARGV[5]) and ARGV[5] ~= '0' then
  return redis.error_reply('CLOSED the run is sealed, and a later one goes on with its frontier')
end
local LOOKS = 256  -- hosts looked at beyond those leased: they have been retired since they were queued
reclaim()

local due = redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', now, 'LIMIT', 0, 64)
for _, packed in ipairs(due) do
  local d = cmsgpack.unpack(packed)  -- token, host, priority, item
  redis.call('ZREM', P .. 'delayed', packed)
  count('queued', -1)
  push(d[2], { d[4] }, d[3], true, 0)
end
load_all(redis.call('ZRANGEBYSCORE', P .. 'snoozed', '-inf', now, 'LIMIT', 0, 64 + n))
place_all()

-- A token is never given twice, not even by a server that has lost its last second. It tells its partition.
local token = math.max((ctr.token or 0) + 1, now * 1000)
local first = token + (ctl.partition - token) % ctl.partitions

-- With nothing left to do, a crawl that is to pause at its finish does, once. One of several partitions does not
-- know that the others have nothing left: see seal.lua.
local function at_finish()
  return ctl.pause_at_finish == 1 and ctl.partitions == 1
    and not ctl.may_finish and not ctl.stop and ctl.paused ~= 1 and not ctl.filling
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

local leases, inproc, dry = {}, {}, false

-- Lease an entry of a host. *counts*: 1 if it is a new target, which it is no more when the lease is given back.
local function grant(h, entry, attempts, kills, priority, counts)
  local name, last = digits(first + #inproc / 2 * ctl.partitions), #inproc
  inproc[last + 1] = name
  inproc[last + 2] = pack_lease(h.name, worker, attempts, kills, priority, counts, entry)
  h.f = h.f + 1
  local interval, own = interval_of(h)
  -- A host that was due a moment ago keeps its beat: what it takes to notice is not added to every interval.
  local noticed = math.min(interval / 4, 100)
  h.nd = (now - h.nd <= noticed and h.nd or now) + interval
  local i = #leases
  leases[i + 1], leases[i + 2], leases[i + 3] = name, h.name, attempts
  leases[i + 4], leases[i + 5] = own and interval or -1, h.more and h.more.k and cjson.encode(h.more.k) or ''
  leases[i + 6] = entry
  n = n - 1
end

-- Lease the first entry of a host, if there is one and it may start. Returns false if no new target may.
local function lease_of(h)
  local item, priority
  if not is_retired(h) and h.f < knob(h, 'in_flight') then  -- no knob was turned since it became ready
    item, priority = pop(h)
  end
  if not item then
    LOOKS = LOOKS - 1
    return true
  end
  local entry, attempts, kills, counted = entry_of(item)
  if counted == 0 and left <= 0 then
    push(h.name, { item }, priority, true, 1)
    return false
  end
  left = left - (1 - counted)
  count('started', 1 - counted)
  grant(h, entry, attempts, kills, priority, 1 - counted)
  return true
end

-- Hand on what workers that died had started before the limit on targets stopped the run. What cannot go out now
-- is looked at again when its host is due, or a second later.
local function hand_on()
  local looked = {}
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. 'lease', '-inf', now, 'LIMIT', 0, 64)) do
    local tokens = tokens_of(member)
    for _, token in ipairs(tokens[1] ~= member and not_renewed(tokens) or tokens) do
      looked[#looked + 1] = token
    end
    redis.call('ZREM', P .. 'lease', member)
  end
  for _, token in ipairs(looked) do
    local packed = redis.call('HGET', P .. 'inproc', token)
    if packed then
      local h = load((host_and_worker(packed)))
      local retired = is_retired(h)
      if not retired and (n <= 0 or ctl.paused == 1 or h.nd > now) then
        redis.call('ZADD', P .. 'lease', digits(math.max(h.nd, now + 1000)), token)
      else
        local lease = take_leases({ token })[token]
        local kills = after_death(lease, not retired)
        if kills then
          grant(h, lease.entry, lease.attempts, kills, lease.priority, 0)
        end
        count('reclaimed', 1)
      end
    end
  end
end
if ctl.stop == TARGETS then
  hand_on()
end

-- Lease from hosts that have been taken out of a structure, with their scores.
local function lease_from(structure, popped)
  local names = {}
  for i = 1, #popped, 2 do
    names[#names + 1] = popped[i]
  end
  load_all(names)
  for i, name in ipairs(names) do
    local h = load(name)
    if n <= 0 or not lease_of(h) then
      local back = {}
      for j = i, #names do
        append(back, popped[2 * j], names[j])
      end
      call_with(back, 'ZADD', P .. structure)
      return false
    end
    h.st = ''
    place(h)
  end
  write()  -- some may be ready again
  return true
end

while open and not throttled and n > 0 and LOOKS > 0 do
  local structure = 'ready'
  local popped = redis.call('ZPOPMIN', P .. 'ready', math.min(n, 500))
  if not popped[1] then
    structure = 'inactive'
    popped = redis.call('ZPOPMIN', P .. 'inactive', math.min(n, 500))
  end
  ready = nil
  dry = not popped[1]
  if dry or not lease_from(structure, popped) then
    break
  end
end
if #inproc > 0 then
  local many = #inproc / 2
  call_with(inproc, 'HSET', P .. 'inproc')
  count('leased', many)
  ctr.token, counted = first + (many - 1) * ctl.partitions, true
  for i = 0, many - 1, 64 do
    redis.call('ZADD', P .. 'lease', digits(now + lease_ms),
      digits(first + i * ctl.partitions) .. ':' .. math.min(64, many - i))
  end
end

place_all()  -- they may be due before anything else
local wait = -1
local function due_in(at)
  local ms = math.max(0, at - now)
  wait = (wait < 0 or ms < wait) and ms or wait
end
for _, name in ipairs({ 'snoozed', 'delayed' }) do
  local first = redis.call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
  if first[2] then
    due_in(tonumber(first[2]))
  end
end
local deadline = first_deadline()
if deadline then
  due_in(deadline)
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
