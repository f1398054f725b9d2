-- Queue dead letters again, as if they had never been tried; those of this run are no new targets.
-- KEYS[1] prefix   ARGV their ids
-- returns how many there were
if ctl.closed == 1 then
  return redis.error_reply('CLOSED the run is sealed')
end
local moved = 0
for _, id in ipairs(ARGV) do
  local letter = redis.call('XRANGE', P .. 'dead', id, id)[1]
  if letter then
    local parts = {}
    for i = 1, #letter[2], 2 do
      parts[letter[2][i]] = letter[2][i + 1]
    end
    local counted = tonumber(parts.run) == ctl.run and 1 or 0
    push(parts.host, { item_of(parts.entry, 0, 0, counted) }, 0, false, 1 - counted)
    redis.call('XDEL', P .. 'dead', id)
    count('dead', -1)
    moved = moved + 1
  end
end
settle()
return moved
