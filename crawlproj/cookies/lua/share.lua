-- Share the cookies of one session at one registered domain.
--
-- KEYS[1]  hash    session and domain -> packed { name of a cookie -> { turn, cookie } }
-- KEYS[2]  zset    session and domain -> turn of its last change
-- KEYS[3]  string  turns so far
-- ARGV     how many sessions and domains are kept, how many cookies of each; session and domain; then for
--          each cookie that has changed: its name, and the cookie, or nothing if it is gone
-- returns  the turn

local found = redis.call('HGET', KEYS[1], ARGV[3])
local cookies = found and cmsgpack.unpack(found) or {}
local turn = redis.call('INCR', KEYS[3])

for i = 4, #ARGV, 2 do
  cookies[ARGV[i]] = ARGV[i + 1] ~= '' and { turn, ARGV[i + 1] } or nil
end

local names = {}
for name in pairs(cookies) do
  names[#names + 1] = name
end
table.sort(names, function(a, b)
  return cookies[a][1] > cookies[b][1] or (cookies[a][1] == cookies[b][1] and a < b)
end)
for i = tonumber(ARGV[2]) + 1, #names do
  cookies[names[i]] = nil  -- those that have not changed for longest
end

if #names > 0 then
  redis.call('HSET', KEYS[1], ARGV[3], cmsgpack.pack(cookies))
else
  redis.call('HDEL', KEYS[1], ARGV[3])
end
redis.call('ZADD', KEYS[2], turn, ARGV[3])
local surplus = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[1])
if surplus > 0 then
  local gone = redis.call('ZPOPMIN', KEYS[2], surplus)
  for i = 1, #gone, 2 do
    redis.call('HDEL', KEYS[1], gone[i])
  end
end
return turn
