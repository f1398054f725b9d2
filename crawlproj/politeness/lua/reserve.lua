-- Reserve the next start on one domain, for the whole fleet.
--
-- KEYS[1]  downloader:domain_runtime:<domain>   hash: last_request_at (ms), in_flight_count,
--          min_interval_ms, min_interval_source, rest_until (ms; see rest.lua)
-- KEYS[2]  {<KEYS[1]>}:in_flight                zset member -> time it no longer counts, ms
-- KEYS[3]  {<KEYS[1]>}:starting                 the start nobody has heard of yet: member, its time, the
--          latest it may happen, ms
-- KEYS[4]  {<KEYS[1]>}:waiting                  hash worker -> since when it waits, until when it counts
--          without asking again, ms, and for what: a place or the next start; a worker is its members'
--          names up to the colon
-- ARGV     member, interval ms, source, most in flight, hold ms, keep ms, latest after its time in ms,
--          wait at least ms, wait at most ms (-1: any)
-- returns  {1, the server's time in µs, wait in µs, start in ms}   the start is reserved
--          {0, the server's time in µs, µs until asking again can be of use, 0 if nobody knows that it is}
--                                       too many in flight, others' turn, or too long to wait
--          {0, the server's time in µs, µs until the domain may be asked again, 2}   it rests
--
-- Starts are interval apart because each is put behind the time at which the last one really happened:
-- none is handed out before that is known, from the one who went or came back. Its news has an interval
-- to get here, so nobody loses time by it, and one that is late costs its lateness. One of which nobody
-- hears counts as gone at the latest time it was allowed to.
--
-- A member that its worker no longer renews stops counting. The first three keys outlive every interval
-- up to `keep`, so that forgetting a domain never lets a request out early.
--
-- Who was refused has a turn before those who come later: a worker whose next request is at hand would
-- else take each place in the moment it frees, and others, which only look now and then, would never
-- find one.

local member, interval, cap = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local hold, keep, latest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local most = tonumber(ARGV[9])

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now = math.ceil(now_us / 1000)

local last, former, pending = 0, interval, false
local state = redis.call('HMGET', KEYS[1], 'last_request_at', 'min_interval_ms', 'rest_until')
if state[3] and tonumber(state[3]) > now then
  return { 0, now_us, tonumber(state[3]) * 1000 - now_us, 2 }
end
if state[1] then
  last = tonumber(state[1])
  former = math.max(interval, tonumber(state[2]) or 0)
  local who, start, till = string.match(redis.call('GET', KEYS[3]) or '', '^(%S+) (%d+) (%d+)$')
  if last > now + 4 * former + 2 * latest then
    last = now -- no reservation reaches that far: the server's clock was set back
  elseif who == member and tonumber(start) == last then
    last = last - interval -- it asks once more, its answer was lost
  elseif who and who ~= member then
    pending = interval > 0 and tonumber(till) > now
    last = pending and last or math.max(last, math.min(tonumber(till), now))
  end
end

local earliest = now_us + tonumber(ARGV[8]) * 1000
local start_us = math.max(earliest, (last + interval) * 1000)
local start = math.max(math.ceil(earliest / 1000), last + interval)

local count = redis.call('ZCARD', KEYS[2])
if count > 0 then
  count = count - redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
end
local placed = redis.call('ZSCORE', KEYS[2], member)

local worker = string.match(member, '^[^:]*')
local gone = {} -- to be taken out of the line; last, for a full server refuses only a first write
local since, ahead = nil, {}
local waiting = redis.call('HGETALL', KEYS[4])
for i = 1, #waiting, 2 do
  local from, till, what = string.match(waiting[i + 1], '^(%d+) (%d+) (%a+)$')
  if tonumber(till) < now or tonumber(from) > now then -- the latter: the clock was set back
    gone[#gone + 1] = waiting[i]
  elseif waiting[i] == worker then
    since = tonumber(from)
    gone[#gone + 1] = worker
  else
    ahead[#ahead + 1] = { tonumber(from), what }
  end
end
local before, starts_before = 0, 0
for _, each in ipairs(ahead) do
  if not since or each[1] < since then
    before = before + 1
    starts_before = starts_before + (each[2] == 'start' and 1 or 0)
  end
end

local full = not placed and count + before >= cap
if full or pending or (interval > 0 and starts_before > 0) then
  local retry, known = start_us - now_us, 1
  if full and retry == 0 then
    known = 0 -- places are held for longer than the interval
  elseif most < 0 then
    -- Early in the interval that follows the last start: whoever has to ask twice is still in time.
    retry = math.max(last * 1000 - now_us, 0) + math.max(interval / 4, 2) * 1000
  end
  if most < 0 then
    -- Longer than anybody leaves between two looks, see `poll_ms`.
    local patience = math.ceil(1.5 * math.max(retry / 1000, 1250))
    local turn = string.format('%.0f %.0f %s', since or now, now + patience, full and 'place' or 'start')
    redis.call('HSET', KEYS[4], worker, turn)
    redis.call('PEXPIRE', KEYS[4], math.max(patience, redis.call('PTTL', KEYS[4])))
  end
  if placed then
    redis.call('ZREM', KEYS[2], member)
  end
  return { 0, now_us, retry, known }
end
if most >= 0 and start_us - now_us > most * 1000 then
  return { 0, now_us, start_us - now_us, 1 }
end

local text = string.format('%.0f', start)
local ends = string.format('%.0f', start + math.max(former, keep, hold, latest + interval))
count = count + redis.call('ZADD', KEYS[2], now + hold, member)
redis.call('HSET', KEYS[1], 'last_request_at', text, 'in_flight_count', count,
  'min_interval_ms', ARGV[2], 'min_interval_source', ARGV[3])
if interval > 0 then
  redis.call('SET', KEYS[3], string.format('%s %s %.0f', member, text, start + latest), 'PXAT', ends)
end
if most < 0 and #gone > 0 then
  redis.call('HDEL', KEYS[4], unpack(gone))
end
redis.call('PEXPIREAT', KEYS[1], ends)
redis.call('PEXPIREAT', KEYS[2], ends)
return { 1, now_us, start_us - now_us, start }
