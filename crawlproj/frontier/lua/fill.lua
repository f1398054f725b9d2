-- Say that one step of bringing in what earlier runs know is done: the next one begins, or none is left.
-- KEYS[1] prefix   ARGV[1] the step: 1, marking what is not due; 2, queuing what is
-- returns the figures
if ctl.filling == tonumber(ARGV[1]) then
  switch('filling', ctl.filling == 1 and 2 or nil)
end
return figures()
