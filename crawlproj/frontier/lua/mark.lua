-- Restore what a lost frontier knew: what was seen, what counted as a target or a result, what had come in.
-- What has been a target had been let in, so that it counts there, too; what is seen for other reasons does not.
-- KEYS[1] prefix   ARGV targets, bytes, number of fingerprints seen, these, then fingerprints of results
-- returns the figures
local marked, last = 0, 3 + ARGV[3]
for i = 4, last do
  marked = marked + mark(ARGV[i])
end
count('seen', marked)
count('started', tonumber(ARGV[1]))
count('admitted', tonumber(ARGV[1]))
count('bytes', tonumber(ARGV[2]))
for i = last + 1, #ARGV do
  count('results', redis.call('SADD', P .. 'r:' .. shard(ARGV[i]), ARGV[i]))
end
return settle()
