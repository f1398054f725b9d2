-- Switch the crawl.
-- KEYS[1] prefix   ARGV what (pause, resume, stop, or nothing), and why for stop
-- returns the figures
if ARGV[1] == 'pause' then
  redis.call('HSET', P .. 'ctl', 'paused', 1)
  ctl.paused = 1
elseif ARGV[1] == 'resume' then
  redis.call('HDEL', P .. 'ctl', 'paused')
  ctl.paused = nil
elseif ARGV[1] == 'stop' then
  redis.call('HSETNX', P .. 'ctl', 'stop', ARGV[2])
  ctl.stop = redis.call('HGET', P .. 'ctl', 'stop')
end
return figures()
