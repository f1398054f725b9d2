-- How many hosts have something to do: they wait for their turn or their time, or are in process.
-- KEYS[1] prefix
-- returns the number
local found = ctr.inprocess or 0
for _, name in ipairs({ 'ready', 'inactive', 'snoozed' }) do
  found = found + redis.call('ZCARD', P .. name)
end
return found
