-- Look for a host in two structures or in none, and for sums that do not agree. Reads everything: for
-- tests and for `scrapy doctor`, not for a running fleet.
-- KEYS[1] prefix
-- returns one sentence per fault
local faults = {}
local found = {}
local function fault(...)
  faults[#faults + 1] = string.format(...)
end
local function note(host, letter)
  if found[host] then
    fault('%s is in %s and in %s', host, found[host], letter)
  end
  found[host] = letter
end
for letter, name in pairs({ r = 'ready', i = 'inactive', s = 'snoozed' }) do
  for _, host in ipairs(redis.call('ZRANGE', P .. name, 0, -1)) do
    note(host, letter)
  end
end
for letter, name in pairs({ p = 'inprocess', t = 'retired' }) do
  for _, host in ipairs(redis.call('SMEMBERS', P .. name)) do
    note(host, letter)
  end
end
for _, host in ipairs(redis.call('HKEYS', P .. 'exhausted')) do
  note(host, 'x')
end
local flights, leases = {}, 0
local inproc = redis.call('HGETALL', P .. 'inproc')
for i = 1, #inproc, 2 do
  local host = cmsgpack.unpack(inproc[i + 1])[1]
  flights[host] = (flights[host] or 0) + 1
  leases = leases + 1
  if not redis.call('ZSCORE', P .. 'lease', inproc[i]) then
    fault('lease %s has no deadline', inproc[i])
  end
end
if redis.call('ZCARD', P .. 'lease') ~= leases then
  fault('%d deadlines for %d leases', redis.call('ZCARD', P .. 'lease'), leases)
end
local queued = redis.call('ZCARD', P .. 'delayed')
for host, letter in pairs(found) do
  hosts[host] = nil
  local h = load(host)
  local length = redis.call('LLEN', P .. 'q:' .. host)
  for _, priority in ipairs(redis.call('ZRANGE', P .. 'p:' .. host, 0, -1)) do
    local more = redis.call('LLEN', P .. 'l:' .. priority .. ':' .. host)
    if more == 0 then
      fault('%s names priority %s, which is empty', host, priority)
    end
    length = length + more
  end
  if redis.call('ZCARD', P .. 'p:' .. host) ~= h.lv then
    fault('%s counts %d priorities', host, h.lv)
  end
  if h.st ~= letter then
    fault('%s is in %s and says %s', host, letter, h.st)
  end
  if h.q ~= length then
    fault('%s counts %d queued and has %d', host, h.q, length)
  end
  if h.f ~= (flights[host] or 0) then
    fault('%s counts %d in flight and has %d', host, h.f, flights[host] or 0)
  end
  if letter == 'x' and (h.q > 0 or h.f > 0) then
    fault('%s is exhausted with %d queued and %d in flight', host, h.q, h.f)
  end
  flights[host] = nil
  queued = queued + length
end
for host in pairs(flights) do
  fault('%s has leases and is nowhere', host)
end
local f = figures()
if f[1] ~= queued then
  fault('the counter says %d queued, the queues %d', f[1], queued)
end
if f[2] ~= leases then
  fault('the counter says %d leased, the leases are %d', f[2], leases)
end
return faults
