-- Take some of a host's queue away for good; with nothing left, forget the host.
-- KEYS[1] prefix   ARGV host, at most how many
-- returns how many
local h = load(ARGV[1])
local taken = 0
while taken < tonumber(ARGV[2]) do
  if not pop(h) then
    break
  end
  taken = taken + 1
end
if taken == tonumber(ARGV[2]) then
  settle()
  return taken
end
for _, packed in ipairs(redis.call('ZRANGE', P .. 'delayed', 0, -1)) do
  local d = cmsgpack.unpack(packed)  -- token, host, priority, item
  if d[2] == h.name then
    redis.call('ZREM', P .. 'delayed', packed)
    count('queued', -1)
    count('fresh', -fresh(d[4]))
    taken = taken + 1
  end
end
local inproc = redis.call('HGETALL', P .. 'inproc')
for i = 1, #inproc, 2 do
  if host_and_worker(inproc[i + 1]) == h.name then
    redis.call('HDEL', P .. 'inproc', inproc[i])
    redis.call('ZREM', P .. 'lease', inproc[i])
    count('leased', -1)
  end
end
take_out(h)
count('held', -(h.held or 0))
hosts[h.name] = nil
for _, kind in ipairs({ 'h:', 'q:', 'p:' }) do
  redis.call('DEL', P .. kind .. h.name)
end
settle()
return taken
