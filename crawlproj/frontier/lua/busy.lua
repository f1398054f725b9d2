-- The hosts that have leases.
-- KEYS[1] prefix
-- returns them
local found, names = {}, {}
for _, packed in ipairs(redis.call('HVALS', P .. 'inproc')) do
  local host = host_and_worker(packed)
  if not found[host] then
    found[host], names[#names + 1] = true, host
  end
end
return names
