-- Say whose cookies have changed.
--
-- KEYS     as in share.lua
-- ARGV     the turn that was read last
-- returns  the turn, and then for each session and domain that has changed since: its name and its turn

local turn = tonumber(redis.call('GET', KEYS[3]) or 0)
local since = tonumber(ARGV[1])
if turn == since then
  return { turn }
end
if turn < since then
  since = 0  -- the server has lost what it had
end
local changed = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. since, '+inf', 'WITHSCORES')
table.insert(changed, 1, turn)
return changed
