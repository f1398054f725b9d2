-- Count anew what is queued, when nothing but retired hosts can have any.
-- KEYS[1] prefix
-- returns 1 if the counter was wrong, else 0; then the figures
for _, name in ipairs({ 'ready', 'inactive', 'snoozed', 'delayed', 'inproc' }) do
  if redis.call('EXISTS', P .. name) == 1 then
    return { 0, figures() }
  end
end
local held = 0
for _, host in ipairs(redis.call('SMEMBERS', P .. 'retired')) do
  held = held + queued(load(host))
end
hosts, touched = {}, {}
local wrong = (ctr.queued or 0) ~= held or (ctr.held or 0) ~= held
if wrong then
  ctr.queued, ctr.held, ctr.fresh, counted = held, held, math.min(ctr.fresh or 0, held), true
end
return { wrong and 1 or 0, settle() }
