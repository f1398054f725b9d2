-- Look for hosts in two structures or in none, or in another one than their fields and queues say.
-- KEYS[1] prefix   ARGV hosts
-- returns what they have queued, what retired ones of them do, how many leases, then one sentence per fault
local flights = {}
for _, packed in ipairs(redis.call('HVALS', P .. 'inproc')) do
  local host = host_and_worker(packed)
  flights[host] = (flights[host] or 0) + 1
end
local faults = {}
local function fault(...)
  faults[#faults + 1] = string.format(...)
end
NAMES.p = 'in process'
local function is_in(letter, host)
  local key = P .. NAMES[letter]
  if letter == 'x' then
    return redis.call('HEXISTS', key, host) == 1
  elseif letter == 'p' then
    return load(host).st == 'p'  -- that is all there is to it
  elseif letter == 't' then
    return redis.call('SISMEMBER', key, host) == 1
  end
  return redis.call('ZSCORE', key, host)
end
local sum, held, leased = 0, 0, 0
for _, host in ipairs(ARGV) do
  local h = load(host)
  local where
  for letter, name in pairs(NAMES) do
    if is_in(letter, host) then
      if where then
        fault('%s is in %s and in %s', host, NAMES[where], name)
      end
      where = letter
    end
  end
  if not where then
    fault('%s has keys and is nowhere', host)
  elseif h.st ~= where then
    fault('%s is in %s and says %s', host, NAMES[where], h.st)
  end
  local levels = redis.call('ZRANGE', P .. 'p:' .. host, 0, -1)
  for _, level in ipairs(levels) do
    if redis.call('EXISTS', P .. 'l:' .. level .. ':' .. host) == 0 then
      fault('%s names priority %s, which is empty', host, level)
    end
  end
  if #levels ~= h.lv then
    fault('%s counts %d priorities and has %d', host, h.lv, #levels)
  end
  h.lv, h.q = #levels, nil
  local length, flying = queued(h), flights[host] or 0
  if where == 's' and tonumber(redis.call('ZSCORE', P .. 'snoozed', host)) ~= h.nd then
    fault('%s is due at %.0f and snoozes until another time', host, h.nd)
  end
  if h.f ~= flying then
    fault('%s counts %d in flight and has %d', host, h.f, flying)
  end
  if where == 'x' and (length > 0 or flying > 0) then
    fault('%s is exhausted with %d queued and %d in flight', host, length, flying)
  elseif where and ('ri'):find(where) and length == 0 then
    fault('%s is %s with nothing queued', host, NAMES[where])
  elseif where == 'p' and flying == 0 then
    fault('%s is in process with nothing in flight', host)
  end
  sum, leased = sum + length, leased + flying
  held = held + (where == 't' and length or 0)
end
hosts, touched = {}, {}
return { sum, held, leased, faults }
