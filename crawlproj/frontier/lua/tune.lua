-- Change knobs of the whole crawl, or read them all.
-- KEYS[1] prefix   ARGV[1] name -> value as JSON
-- returns all of them, and what is fixed, as JSON
for name, value in pairs(cjson.decode(ARGV[1])) do
  ctl[name] = value
  if name == 'precedence' then
    ctl.precedences = 1  -- hosts have different ones from now on
  end
  counted = true
end
if counted then
  switch('version', ctl.version + 1)
end
return cjson.encode(ctl)
