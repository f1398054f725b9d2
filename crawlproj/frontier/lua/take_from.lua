-- Take one entry from a start-URL key and let its requests in, in one step.
-- KEYS[1] prefix, KEYS[2] the key   ARGV the entry as it was read, then links as in schedule.lua
-- returns 1, or 0 if another worker has taken it, or no room is left for it; then the figures
if ctl.closed == 1 then
  return redis.error_reply('CLOSED the run is sealed')
elseif ctl.closing then
  return redis.error_reply('TRYAGAIN the run is being sealed')
end
if #ARGV > 1 and room() <= 0 then
  return { 0, figures() }  -- it stays for a later run
end
local kind = redis.call('TYPE', KEYS[2]).ok
local taken = 0
if kind == 'list' then
  taken = redis.call('LREM', KEYS[2], 1, ARGV[1])
elseif kind == 'set' then
  taken = redis.call('SREM', KEYS[2], ARGV[1])
elseif kind == 'zset' then
  taken = redis.call('ZREM', KEYS[2], ARGV[1])
end
if taken == 1 then
  admit(2, #ARGV)
end
return { taken, settle() }
