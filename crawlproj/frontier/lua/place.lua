-- Look at hosts anew, and put each where it belongs.
-- KEYS[1] prefix   ARGV hosts
-- returns the hosts that were nowhere
local flights = {}
for _, packed in ipairs(redis.call('HVALS', P .. 'inproc')) do
  local host = cmsgpack.unpack(packed)[1]
  flights[host] = (flights[host] or 0) + 1
end
local stray = {}
for _, host in ipairs(ARGV) do
  local h = load(host)
  local found = 0
  for letter, structure in pairs(STRUCTURE) do
    if letter ~= h.st then
      found = found + redis.call(structure[1], P .. structure[2], host)
    elseif letter == 'x' then
      found = found + redis.call('HEXISTS', P .. 'exhausted', host)
    elseif letter == 'p' or letter == 't' then
      found = found + redis.call('SISMEMBER', P .. structure[2], host)
    else
      found = found + (redis.call('ZSCORE', P .. structure[2], host) and 1 or 0)
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
