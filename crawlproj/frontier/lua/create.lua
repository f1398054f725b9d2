-- Make a frontier, or find that it is there.
-- KEYS[1] prefix   ARGV name, value, … of `ctl`; the first is `shards`, fixed for its life. Without
-- any it is only asked for. A limit of 0 is no limit of this worker's, and leaves that of another alone.
-- returns the number of shards it has, 0: there is none; if it is another one, nothing is changed
local key = KEYS[1] .. 'ctl'
local packed = redis.call('GET', key)
local ctl = packed and cmsgpack.unpack(packed) or {}
local shards = ctl.shards or tonumber(ARGV[2]) or 0
if shards == tonumber(ARGV[2]) then
  for i = 1, #ARGV, 2 do
    if ARGV[i] ~= 'max_target' or tonumber(ARGV[i + 1]) > 0 then
      ctl[ARGV[i]] = tonumber(ARGV[i + 1])
    end
  end
  redis.call('SET', key, cmsgpack.pack(ctl))
end
return shards
