-- Let links in.
-- KEYS[1] prefix   ARGV the token of the lease that found them (none: of no lease), then per link: host,
-- fingerprint, priority, flags, entry
-- returns how many were new, or -1 when the token is stale and nothing was changed; then the figures
if ctl.closed == 1 then
  return redis.error_reply('CLOSED the run is sealed')
elseif ctl.closing then
  return redis.error_reply('TRYAGAIN the run is being sealed')
end
if ARGV[1] ~= '' and redis.call('HEXISTS', P .. 'inproc', ARGV[1]) == 0 then
  count('late', 1)
  return { -1, settle() }
end
local added = admit(2, #ARGV)
return { added, settle() }
