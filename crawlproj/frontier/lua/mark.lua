-- Restore what a lost frontier knew: what was seen, what counted as a target or a result.
-- KEYS[1] prefix   ARGV targets, number of fingerprints seen, these, then fingerprints of results
-- returns the figures
local marked, last = 0, 2 + ARGV[2]
for i = 3, last do
  marked = marked + mark(ARGV[i])
end
count('seen', marked)
count('started', tonumber(ARGV[1]))
for i = last + 1, #ARGV do
  count('results', redis.call('SADD', P .. 'r:' .. shard(ARGV[i]), ARGV[i]))
end
return settle()
