-- Change a host's own knobs; it moves at once to where they put it.
-- KEYS[1] prefix   ARGV host, then field, value, …
-- (iv interval ms, fl in-flight limit, bu budget, pr precedence, bl blocked)
-- returns 1 if the host was known
local known = redis.call('EXISTS', P .. 'h:' .. ARGV[1]) == 1
  or redis.call('HEXISTS', P .. 'exhausted', ARGV[1]) == 1
local h = load(ARGV[1])
for i = 2, #ARGV, 2 do
  h[ARGV[i]] = tonumber(ARGV[i + 1])
end
if h.st == 'r' or h.st == 'i' then
  redis.call(STRUCTURE[h.st][1], P .. STRUCTURE[h.st][2], h.name)
  place(h, h.st)
else
  place(h)
end
return known and 1 or 0
