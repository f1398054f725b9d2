-- Switch the crawl.
-- KEYS[1] prefix   ARGV what (pause, resume, stop, or nothing), and why for stop
-- returns the figures
if ARGV[1] == 'pause' then
  switch('paused', 1)
elseif ARGV[1] == 'resume' then
  if ctl.at_finish then
    ctl.at_finish, ctl.may_finish = nil, 1  -- until something new comes
  end
  switch('paused', nil)
elseif ARGV[1] == 'stop' and not ctl.stop then
  switch('stop', ARGV[2])
end
return figures()
