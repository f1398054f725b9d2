-- Read one domain's state.
--
-- KEYS[1], KEYS[2]  as in reserve.lua
-- returns  {last_request_at, members in flight that still count, min_interval_ms,
--          min_interval_source}; the first is false for a domain that is not known

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local state = redis.call('HMGET', KEYS[1], 'last_request_at', 'min_interval_ms', 'min_interval_source')

return { state[1], redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf'), state[2], state[3] }
