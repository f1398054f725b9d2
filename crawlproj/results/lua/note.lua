-- Keep what was found, and count it.
--
-- KEYS     results, downloader:fetch_result:<32 hex digits>; then counters, downloader:fetch_counts:<hour>…
-- ARGV     how many results, how long they are kept in ms, how long counters are, ms; then the results as JSON;
--          then for each counter how many fields, and these with what is added to them
-- returns  1
--
-- On a cluster it is called for one key at a time.

local results = tonumber(ARGV[1])
for i = 1, results do
  redis.call('SET', KEYS[i], ARGV[3 + i], 'PX', ARGV[2])
end
local at = 4 + results
for i = results + 1, #KEYS do
  local last = at + 2 * ARGV[at]
  for field = at + 1, last, 2 do
    redis.call('HINCRBY', KEYS[i], ARGV[field], ARGV[field + 1])
  end
  redis.call('PEXPIRE', KEYS[i], ARGV[3])
  at = last + 1
end
return 1
