-- Let links in.
-- KEYS[1] prefix   ARGV per link: host, fingerprint, priority, flags, entry
-- returns how many were new, then the figures
if ctl.closed == 1 then
  return redis.error_reply('CLOSED the run is sealed')
end
local added = admit(1)
place_all()
return { added, figures() }
