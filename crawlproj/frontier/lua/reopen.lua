-- Open a closed frontier for a later run. What it holds stays: queues, hosts, what was seen, knobs, dead letters.
-- What counts for one run begins anew, and everything queued is a new target. Results are forgotten some at a
-- time, so that nobody waits for long.
-- KEYS[1] prefix   ARGV[1] number of the run, [2] knobs that it begins with, a JSON object: its limits are its own
-- returns 1 if it is open, 0 if it is closed, for this run is over; 2: there is more to do, call it again;
-- then the figures
local AT_ONCE = 2000  -- sets of results
local OF_ONE_RUN = {
  'started', 'results', 'late', 'admitted', 'over', 'bytes', 'succeeded', 'failed', 'disregarded', 'retried',
  'reclaimed',
}
local SWITCHES = { 'closed', 'stop', 'closing', 'sealer', 'at_finish', 'may_finish', 'forgotten' }
local run = tonumber(ARGV[1])
if ctl.closed ~= 1 or ctl.run >= run then
  return { ctl.closed == 1 and 0 or 1, figures() }
end

local first, last = ctl.forgotten or math.floor(-ctl.shards / 2), math.floor(ctl.shards / 2)
local keys = {}
for n = first, math.min(first + AT_ONCE - 1, last) do
  keys[#keys + 1] = P .. 'r:' .. n
end
call_with(keys, 'UNLINK')
if first + AT_ONCE <= last then
  switch('forgotten', first + AT_ONCE)
  return { 2, figures() }
end

for _, name in ipairs(OF_ONE_RUN) do
  ctr[name] = nil
end
ctr.fresh, counted = ctr.queued, true
for _, name in ipairs(SWITCHES) do
  ctl[name] = nil
end
for name, value in pairs(cjson.decode(ARGV[2])) do
  ctl[name] = value
end
ctl.version = ctl.version + 1
ctl.paused = ctl.pause_at_start == 1 and 1 or nil
switch('run', run)
return { 1, settle() }
