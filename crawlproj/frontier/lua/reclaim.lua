-- Give expired leases back to their hosts.
-- KEYS[1] prefix
-- returns how many
local n = reclaim()
settle()
return n
