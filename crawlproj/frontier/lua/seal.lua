-- Close the frontier for good, if nothing is left to do; after an early stop, if nothing runs. What
-- retired hosts hold is not to be done. A paused crawl is not over.
-- KEYS[1] prefix   ARGV[1] what to do: close; or with several partitions first hold (nothing enters for a
-- while, if this one has nothing left), then close, or let_go
-- returns 1 if it is closed or held now, else 0; then the figures, and how often anything has entered or left
local HOLD_MS = 5000  -- a sealer that died does not hold it for longer
local what = ARGV[1]
if what == 'let_go' then
  switch('closing', nil)
  return { 1, figures(), 0 }
end
local f = figures()
local activity = (ctr.token or 0) + (ctr.seen or 0)
local at_work = f[3] > 0 or (not ctl.stop and (f[1] > f[2] or ctl.paused == 1))
local waits = ctl.pause_at_finish == 1 and not ctl.may_finish and not ctl.stop and (ctr.started or 0) > 0
if at_work or waits then
  return { 0, f, activity }
end
if what == 'hold' then
  switch('closing', now + HOLD_MS)
else
  ctl.closing = nil
  switch('closed', 1)
end
return { 1, figures(), activity }
