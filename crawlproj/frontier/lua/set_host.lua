-- Change a host's own knobs; it moves at once to where they put it. A host that nobody has met is made.
-- KEYS[1] prefix   ARGV host, its new knobs as JSON: a number, or false for none of its own; `blocked` 1 or 0;
-- `crawl_delay` in ms is what its robots.txt asks for, `least_crawl_delay` what one of several hosts' does
-- returns its own knobs as JSON
local h = load(ARGV[1])
local precedence = knob(h, 'precedence')
h.k = h.k or {}
for name, value in pairs(cjson.decode(ARGV[2])) do
  if name == 'crawl_delay' then
    h.cd = value
  elseif name == 'least_crawl_delay' then
    h.cd = math.max(h.cd, value)
  else
    h.k[name] = value or nil
  end
  if name == 'precedence' and not ctl.precedences then
    switch('precedences', 1)  -- from now on they are looked at
  end
end
local own = cjson.encode(h.k)
h.k = next(h.k) and h.k
if h.st == '' and not h.k and h.cd == 0 then
  hosts[h.name] = nil  -- nothing to keep
end
if precedence ~= knob(h, 'precedence') and (h.st == 'r' or h.st == 'i') then
  take_out(h)  -- its turn depends on it
end
settle()
return own
