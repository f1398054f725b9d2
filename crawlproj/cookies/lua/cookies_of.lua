-- Return the cookies of one session at one registered domain.
--
-- KEYS     as in share.lua
-- ARGV     session and domain
-- returns  the cookies

local found = redis.call('HGET', KEYS[1], ARGV[1])
local cookies = {}
if found then
  for _, each in pairs(cmsgpack.unpack(found)) do
    cookies[#cookies + 1] = each[2]
  end
end
return cookies
