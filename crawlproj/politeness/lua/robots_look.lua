-- Look a robots.txt up; where there is none, one worker is told to fetch it.
--
-- KEYS[1]  downloader:robots:<authority>            what was found, packed
-- KEYS[2]  {<KEYS[1]>}:lock                         token of the worker that fetches it
-- ARGV     token, nothing: the caller only looks; how long the lock lasts, ms
-- returns  {what was found or false, how long it is good for in ms, 1 if the caller is to fetch it}
--
-- The worker that holds the lock keeps it by asking again.

local found = redis.call('GET', KEYS[1])
if found then
  return { found, redis.call('PTTL', KEYS[1]), 0 }
end
local holder = redis.call('GET', KEYS[2])
if ARGV[1] == '' or (holder and holder ~= ARGV[1]) then
  return { false, 0, 0 }
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return { false, 0, 1 }
