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
local cursor = '0'
repeat  -- a host that is nowhere has keys all the same
  local reply = redis.call('SCAN', cursor, 'MATCH', P:gsub('[%*%?%[%]%^\\]', '\\%0') .. '[hqp]:*', 'COUNT', 1000)
  cursor = reply[1]
  for _, key in ipairs(reply[2]) do
    local host = key:sub(#P + 3)
    if not found[host] then
      found[host] = '-'
      fault('%s has keys and is nowhere', host)
    end
  end
until cursor == '0'
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
local queued, held = redis.call('ZCARD', P .. 'delayed'), 0
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
  if letter == 's' and tonumber(redis.call('ZSCORE', P .. 'snoozed', host)) ~= h.nd then
    fault('%s is due at %.0f and snoozes until another time', host, h.nd)
  end
  if letter == 't' then
    held = held + h.q
  end
  if letter ~= '-' and h.st ~= letter then
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
local function sum(kind)
  local members = 0
  for n = -math.ceil(ctl.shards / 2), math.ceil(ctl.shards / 2) do
    members = members + redis.call('SCARD', P .. kind .. n)
  end
  return members
end
local actual = { queued = queued, held = held, leased = leases, seen = sum('s:'), results = sum('r:') }
for name, number in pairs(actual) do
  if (ctr[name] or 0) ~= number then
    fault('the counter says %d %s, and there are %d', ctr[name] or 0, name, number)
  end
end
return faults
