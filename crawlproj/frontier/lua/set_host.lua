-- Change a host's own knobs; it moves at once to where they put it. A host that nobody has met is made.
-- KEYS[1] prefix   ARGV host, its new knobs as JSON: a number, or false for none of its own; `blocked` 1 or 0;
-- `crawl_delay` in ms is what its robots.txt asks for, `least_crawl_delay` what one of several hosts' does;
-- `language_interval` in ms (false: none) and `least_language_interval` likewise; `rest` for how long it is to be
-- left alone from now on, ms
-- returns its own knobs as JSON
local h = load(ARGV[1])
local precedence = knob(h, 'precedence')
local m = more_of(h)
m.k = m.k or {}
for name, value in pairs(cjson.decode(ARGV[2])) do
  if name == 'crawl_delay' then
    m.cd = value
  elseif name == 'least_crawl_delay' then
    m.cd = math.max(m.cd, value)
  elseif name == 'rest' then
    h.nd, m.bu = math.max(h.nd, now + value), math.max(m.bu or 0, now + value)
  elseif name == 'language_interval' then
    m.li = value or nil
  elseif name == 'least_language_interval' then
    m.li = math.max(m.li or ctl.interval_ms, value)
  else
    m.k[name] = value or nil
  end
  if name == 'precedence' and not ctl.precedences then
    switch('precedences', 1)  -- from now on they are looked at
  end
end
local own = cjson.encode(m.k)
m.k = next(m.k) and m.k or false
if h.st == '' and not m.k and m.cd == 0 and not m.li then
  hosts[h.name] = nil  -- nothing to keep
end
if precedence ~= knob(h, 'precedence') and (h.st == 'r' or h.st == 'i') then
  take_out(h)  -- its turn depends on it
end
settle()
return own
