-- Make a frontier, or join it.
-- KEYS[1] prefix   ARGV[1] what is fixed for its life, [2] the knobs of a new one, [3] the knobs that a joining
-- worker was told to change; each a JSON object. That goes for limits as for all others: a worker that was told
-- nothing leaves those of others alone, and one that was told 0 lifts them
-- returns nothing, or the name of the first fixed thing that is another here, and what it is
local key = KEYS[1] .. 'ctl'
local fixed, packed = cjson.decode(ARGV[1]), redis.call('GET', key)
local ctl = packed and cmsgpack.unpack(packed)
local changed = false
if ctl then
  local names = {}
  for name in pairs(fixed) do
    names[#names + 1] = name
  end
  table.sort(names)
  if ctl.format ~= fixed.format then
    return { 'format', tostring(ctl.format) }
  end
  for _, name in ipairs(names) do
    if ctl[name] ~= fixed[name] then
      return { name, tostring(ctl[name]) }
    end
  end
  for name, value in pairs(cjson.decode(ARGV[3])) do
    if ctl[name] ~= value then
      ctl[name], changed = value, true
      if name == 'precedence' then
        ctl.precedences = 1  -- hosts have different ones from now on
      end
    end
  end
else
  ctl, changed = fixed, true
  for name, value in pairs(cjson.decode(ARGV[2])) do
    ctl[name] = value
  end
  ctl.version = 0
  ctl.paused = ctl.pause_at_start == 1 and 1 or nil
end
if changed then
  ctl.version = ctl.version + 1
  redis.call('SET', key, cmsgpack.pack(ctl))
end
return {}
