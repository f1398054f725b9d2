-- Add what was learnt of domains to their profiles, and read these.
--
-- KEYS     sampler:profile:<domain>   hash: crawl_delay_ms, and `lang:<language>` with the votes for it
-- ARGV     how long a profile is kept, ms; then for each domain: its crawl-delay in ms, or nothing; how many
--          languages, and these with their votes
-- returns  for each domain the fields and their values
--
-- Who only looks makes no profile and keeps none alive. On a cluster it is called for one key at a time.

local profiles, at = {}, 2
for i, key in ipairs(KEYS) do
  local delay, last = ARGV[at], at + 1 + 2 * ARGV[at + 1]
  if delay ~= '' then
    redis.call('HSET', key, 'crawl_delay_ms', delay)
  end
  for j = at + 2, last, 2 do
    redis.call('HINCRBY', key, 'lang:' .. ARGV[j], ARGV[j + 1])
  end
  if delay ~= '' or last > at + 1 then
    redis.call('PEXPIRE', key, ARGV[1])
  end
  profiles[i] = redis.call('HGETALL', key)
  at = last + 1
end
return profiles
