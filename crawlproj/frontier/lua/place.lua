-- Look at hosts anew: count what their keys hold, and put each where it belongs.
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
    found = found + redis.call(structure[1], P .. structure[2], host)
  end
  if found == 0 then
    stray[#stray + 1] = host
  end
  h.st, h.lv, h.f = '', 0, flights[host] or 0
  h.q = redis.call('LLEN', P .. 'q:' .. host)
  for _, level in ipairs(redis.call('ZRANGE', P .. 'p:' .. host, 0, -1)) do
    h.q, h.lv = h.q + redis.call('LLEN', P .. 'l:' .. level .. ':' .. host), h.lv + 1
  end
end
settle()
return stray
