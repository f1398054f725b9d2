-- Note how things stand with domains, as one crawl sees it.
--
-- KEYS     scheduler:domain_runtime:<domain>   hash: last_leased_at (ms), leased_count (over all crawls),
--          min_interval_ms, min_interval_source, next_due_at (ms), backoff_until (ms, while it is to come);
--          and for each crawl that has leases `crawl:<id>`: how many, and until when that counts
-- ARGV     crawl; how long its leases count without news, ms; how long a domain is kept, ms; then for each
--          domain: ms since it was leased from (nothing: it was not), leases, interval in ms and its source
--          (nothing: the crawl knows it no more), ms until it is due, ms that it backs off
-- returns  1
--
-- On a cluster it is called for one key at a time.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local field, hold, keep = 'crawl:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local function whole(number)
  return string.format('%.0f', number)
end

for i, key in ipairs(KEYS) do
  local at = 6 * i - 2
  local ago, leases, interval = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local due, rest = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local known, is_there, gone = redis.call('HGETALL', key), {}, {}
  local sum, backoff = leases, rest > 0 and now + rest or 0
  for j = 1, #known, 2 do
    local name, value = known[j], known[j + 1]
    is_there[name] = true
    if name == 'backoff_until' then
      backoff = math.max(backoff, tonumber(value))
    elseif name:sub(1, 6) == 'crawl:' and name ~= field then
      local count, till = value:match('^(%d+) (%d+)$')
      if count and tonumber(till) > now then
        sum = sum + count
      else
        gone[#gone + 1] = name
      end
    end
  end
  local set = { 'leased_count', sum }
  local function put(name, value)
    set[#set + 1], set[#set + 2] = name, value
  end
  if ago ~= '' then
    put('last_leased_at', whole(now - ago))
  end
  if interval ~= '' then
    put('min_interval_ms', interval)
    put('min_interval_source', ARGV[at + 3])
    put('next_due_at', whole(now + due))
  end
  if leases > 0 then
    put(field, leases .. ' ' .. whole(now + hold))
  elseif is_there[field] then
    gone[#gone + 1] = field
  end
  if backoff > now then
    put('backoff_until', whole(backoff))
  elseif is_there.backoff_until then
    gone[#gone + 1] = 'backoff_until'
  end
  if ago ~= '' or leases > 0 or #known > 0 then
    redis.call('HSET', key, unpack(set))
    if #gone > 0 then
      redis.call('HDEL', key, unpack(gone))
    end
    redis.call('PEXPIRE', key, whole(math.max(keep, due, backoff - now)))
  end
end
return 1
