-- Close the frontier for good, if nothing is left to do; after an early stop, if nothing runs. What
-- retired hosts hold is not to be done.
-- KEYS[1] prefix
-- returns 1 if it is closed now, else 0; then the figures
local f = figures()
if f[3] > 0 or (f[1] > f[2] and not ctl.stop) then
  return { 0, f }
end
switch('closed', 1)
return { 1, figures() }
