-- Look at hosts anew, and put each where it belongs.
-- KEYS[1] prefix   ARGV hosts
-- returns the hosts that were nowhere
local flights = {}
for _, packed in ipairs(redis.call('HVALS', P .. 'inproc')) do
  local host = host_and_worker(packed)
  flights[host] = (flights[host] or 0) + 1
end
local stray = {}
for _, host in ipairs(ARGV) do
  local h = load(host)
  local found = (h.st == 'p' and flights[host]) and 1 or 0
  for letter, name in pairs({ r = 'ready', i = 'inactive', s = 'snoozed' }) do
    if redis.call('ZSCORE', P .. name, host) then
      found = found + 1
      if letter ~= h.st then
        redis.call('ZREM', P .. name, host)
      end
    end
  end
  for letter, there in pairs({ t = redis.call('SISMEMBER', P .. 'retired', host),
                               x = redis.call('HEXISTS', P .. 'exhausted', host) }) do
    if there == 1 then
      found = found + 1
      if letter ~= h.st then
        append(leaving[letter], host)
      end
    end
  end
  if found == 0 then
    stray[#stray + 1] = host
    h.st = ''
  end
  h.lv, h.f = redis.call('ZCARD', P .. 'p:' .. host), flights[host] or 0
  h.q = nil
end
settle()
return stray
