-- Close the frontier for good, if nothing is left to do; after an early stop, if nothing runs. What
-- retired hosts hold is not to be done. A paused crawl is not over, nor one that is being filled.
-- KEYS[1] prefix   ARGV[1] what to do: close; or with several partitions first hold (nothing enters for a
-- while, if this one has nothing left), then close, rest (pause at the finish, if that is wanted) or let_go,
-- which takes back what this sealer has done; [2] the sealer, nothing with one partition; [3] the run that it is
-- at (0: whichever)
-- returns 1 if it is closed or held now, 2 if it is held and has yet to pause at its finish, else 0; then the
-- figures, how often anything has entered or left, and the run that it is open for, or was
local HOLD_MS = 5000  -- a sealer that died does not hold it for longer
local what, sealer = ARGV[1], ARGV[2]
local f = figures()
local activity = (ctr.token or 0) + (ctr.seen or 0)
if ctl.run > tonumber(ARGV[3]) and ARGV[3] ~= '0' then
  return redis.error_reply('CLOSED the run is sealed, and a later one goes on with its frontier')
end
local holds = ctl.closing and ctl.sealer == sealer
if what == 'let_go' then
  if ctl.sealer == sealer then
    ctl.closed = nil  -- it was closed before another one turned out not to be through
    switch('closing', nil)
  end
  return { 1, figures(), activity, ctl.run }
elseif ctl.closed == 1 then
  return { 1, f, activity, ctl.run }
end
local at_work = f[3] > 0 or (not ctl.stop and (f[1] > f[2] or ctl.paused == 1 or ctl.filling ~= nil))
local waits = ctl.pause_at_finish == 1 and not ctl.may_finish and not ctl.stop and (ctr.started or 0) > 0
local mine = holds or (not ctl.closing and (what == 'hold' or sealer == ''))
if at_work or not mine or (waits and what == 'close') then
  return { 0, f, activity, ctl.run }
elseif what == 'hold' then
  ctl.sealer = sealer
  switch('closing', now + HOLD_MS)
elseif what == 'rest' then
  if waits then
    ctl.at_finish, ctl.paused = 1, 1
  end
  switch('closing', nil)
else
  ctl.closing = nil
  switch('closed', 1)
end
return { what == 'hold' and waits and 2 or 1, figures(), activity, ctl.run }
