-- Reserve the next start on one domain, for the whole fleet.
--
-- KEYS[1]  downloader:domain_runtime:<domain>   hash: last_request_at (ms), in_flight_count,
--          min_interval_ms, min_interval_source
-- KEYS[2]  {<KEYS[1]>}:in_flight                zset member -> time it no longer counts, ms
-- KEYS[3]  {<KEYS[1]>}:waiting                  hash worker -> since when it waits, and until when it
--          counts without asking again, ms; a worker is its members' names up to the colon
-- ARGV     member, interval ms, source, most in flight, hold ms, keep ms,
--          start that this member had before and gives back (0: none),
--          wait at least ms, wait at most ms (-1: any)
-- returns  {1, wait in µs, start in ms}   the start is reserved
--          {0, µs until asking again can be of use}   too many in flight, others' turn, or too long to wait
--
-- Starts are interval apart because each is put behind the last one here, also when that is still
-- to come. A member that its worker no longer renews stops counting. The first two keys outlive every
-- interval up to `keep`, so that forgetting a domain never lets a request out early.
--
-- Who was refused a place has a turn before those who come later: a worker whose next request is at
-- hand would else take each place in the moment it frees, and others, which only look now and then,
-- would never find one.

local member, interval, cap = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local hold, keep, given = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local most = tonumber(ARGV[9])

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.ceil(now_us / 1000)

local last, former = 0, interval
local state = redis.call('HMGET', KEYS[1], 'last_request_at', 'min_interval_ms')
if state[1] then
  last = tonumber(state[1])
  former = math.max(interval, tonumber(state[2]) or 0)
  if last == given then
    last = last - interval
  elseif last > now + 2 * (cap + 1) * former then
    last = now -- no reservation reaches that far: the server's clock was set back
  end
end

local earliest = now_us + tonumber(ARGV[8]) * 1000
local start_us = math.max(earliest, (last + interval) * 1000)
local start = math.max(math.ceil(earliest / 1000), last + interval)

local count = redis.call('ZCARD', KEYS[2])
if count > 0 then
  count = count - redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
end

local worker = string.match(member, '^[^:]*')
local gone = {} -- to be taken out of the line; last, for a full server refuses only a first write
if not redis.call('ZSCORE', KEYS[2], member) then
  local since, ahead = nil, {}
  local waiting = redis.call('HGETALL', KEYS[3])
  for i = 1, #waiting, 2 do
    local from, till = string.match(waiting[i + 1], '^(%d+) (%d+)$')
    if tonumber(till) < now or tonumber(from) > now then -- the latter: the clock was set back
      gone[#gone + 1] = waiting[i]
    elseif waiting[i] == worker then
      since = tonumber(from)
      gone[#gone + 1] = worker
    else
      ahead[#ahead + 1] = tonumber(from)
    end
  end
  local before = 0
  for _, from in ipairs(ahead) do
    before = before + ((not since or from < since) and 1 or 0)
  end
  if count + before >= cap then
    local retry = start_us - now_us
    if count >= cap then
      local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
      retry = math.min(retry, oldest[2] * 1000 - now_us)
    end
    if most < 0 then
      -- Longer than anybody leaves between two looks, see `poll_ms`.
      local patience = math.ceil(1.5 * math.max(retry / 1000, 1250))
      local turn = string.format('%.0f %.0f', since or now, now + patience)
      redis.call('HSET', KEYS[3], worker, turn)
      redis.call('PEXPIRE', KEYS[3], math.max(patience, redis.call('PTTL', KEYS[3])))
    end
    return { 0, retry }
  end
end
if most >= 0 and start_us - now_us > most * 1000 then
  return { 0, start_us - now_us }
end

local text = string.format('%.0f', start)
count = count + redis.call('ZADD', KEYS[2], now + hold, member)
redis.call('HSET', KEYS[1], 'last_request_at', text, 'in_flight_count', count,
  'min_interval_ms', ARGV[2], 'min_interval_source', ARGV[3])
if most < 0 and #gone > 0 then
  redis.call('HDEL', KEYS[3], unpack(gone))
end
local ends = string.format('%.0f', start + math.max(former, keep, hold))
redis.call('PEXPIREAT', KEYS[1], ends)
redis.call('PEXPIREAT', KEYS[2], ends)
return { 1, start_us - now_us, start }
