-- Move entries of one list of a host's queue to another priority, keeping their order.
-- KEYS[1] prefix   ARGV host, priority of the list, the new one, then per entry, as they stand at the head of
-- the list: the item, and 1 to move it or 0 to leave it in its list
-- returns how many of them stood there; the others have been taken meanwhile
local host, from, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local h = load(host)
local list = from == 0 and P .. 'q:' .. host or P .. 'l:' .. digits(from) .. ':' .. host
local stood = 0
for i = 4, #ARGV, 2 do
  if redis.call('LINDEX', list, 0) ~= ARGV[i] then
    break
  end
  redis.call('LPOP', list)
  if ARGV[i + 1] == '1' then
    count('queued', -1)
    h.q = nil
    push(host, { ARGV[i] }, to, false, 0)
  else
    redis.call('RPUSH', list, ARGV[i])
  end
  stood = stood + 1
end
if from ~= 0 and redis.call('EXISTS', list) == 0 then
  redis.call('ZREM', P .. 'p:' .. host, digits(from))
end
h.lv, h.q = redis.call('ZCARD', P .. 'p:' .. host), nil
settle()
return stood
