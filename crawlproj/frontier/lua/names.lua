-- Every host that is in a structure, in one step: a host that moves meanwhile is in one of them.
-- KEYS[1] prefix
-- returns them
local names = {}
for _, name in ipairs({ 'ready', 'inactive', 'snoozed' }) do
  for _, host in ipairs(redis.call('ZRANGE', P .. name, 0, -1)) do
    names[#names + 1] = host
  end
end
for _, host in ipairs(redis.call('SMEMBERS', P .. 'retired')) do
  names[#names + 1] = host
end
for _, host in ipairs(redis.call('HKEYS', P .. 'exhausted')) do
  names[#names + 1] = host
end
for _, packed in ipairs(redis.call('HVALS', P .. 'inproc')) do
  names[#names + 1] = host_and_worker(packed)
end
return names
