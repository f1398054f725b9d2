-- What waits for another attempt.
-- KEYS[1] prefix
-- returns per entry: host, priority, entry, attempts; soonest first
local found = {}
for _, packed in ipairs(redis.call('ZRANGE', P .. 'delayed', 0, 9999)) do
  local d = cmsgpack.unpack(packed)  -- token, host, priority, item
  local entry, attempts = entry_of(d[4])
  for _, part in ipairs({ d[2], d[3], entry, attempts }) do
    found[#found + 1] = part
  end
end
return found
