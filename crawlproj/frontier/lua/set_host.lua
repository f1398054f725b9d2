-- Change a host's own knobs; it moves at once to where they put it.
-- KEYS[1] prefix   ARGV host, then field, value, …
-- (iv interval ms, fl in-flight limit, bu budget, pr precedence, bl blocked)
-- returns 1 if the host was known
local h = load(ARGV[1])
local known = h.st ~= '' and 1 or 0
local precedence = h.pr
for i = 2, #ARGV, 2 do
  h[ARGV[i]] = tonumber(ARGV[i + 1])
end
if h.pr ~= precedence and (h.st == 'r' or h.st == 'i') then
  take_out(h, h.st)  -- its turn depends on its precedence
  h.st = ''
end
settle()
return known
