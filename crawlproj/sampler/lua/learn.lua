-- Add what was learnt of a domain to its profile, and read it.
--
-- KEYS[1]  sampler:profile:<domain>   hash: crawl_delay_ms, and `lang:<language>` with the votes for it
-- ARGV     how long it is kept, ms; its crawl-delay in ms, or nothing; then languages and votes in turn
-- returns  the fields and their values
--
-- Who only looks makes no profile and keeps none alive.

local changed = ARGV[2] ~= '' or #ARGV > 2
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'crawl_delay_ms', ARGV[2])
end
for i = 3, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], 'lang:' .. ARGV[i], ARGV[i + 1])
end
if changed then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return redis.call('HGETALL', KEYS[1])
