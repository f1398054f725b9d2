-- Leases: how they are kept, how they end, and what becomes of those that nobody renews.

local function bury(host, entry, reason, attempts)
  count('dead', 1)
  redis.call('XADD', P .. 'dead', '*', 'host', host, 'entry', entry, 'reason', reason, 'attempts', attempts,
    'run', digits(ctl.run))
end

-- The wait before attempt `steps` + 2, jitter in 0…1.
local function retry_wait(h, steps, jitter)
  return knob(h, 'retry_delay_ms') * 2 ^ math.min(steps, 30) * (0.75 + jitter / 2)
end

-- Make a whole host wait: for what it asked for, else one exponential step per incident, and an
-- incident is everything that had started before the last wait began.
local function back_off(h, asked, jitter, leased_at)
  local wait, m = asked, more_of(h)
  if wait <= 0 then
    if m.bo > 0 and leased_at <= m.ba then
      return
    end
    m.bo = m.bo + 1
    wait = retry_wait(h, m.bo - 1, jitter)
  end
  local ends = math.floor(now + math.min(wait, knob(h, 'retry_delay_max_ms')))
  m.ba, m.bu = now, math.max(m.bu or 0, ends)
  h.nd = math.max(h.nd, ends)
end

-- A lease: leased at, attempts, kills, priority, whether this lease counted as a target; host, worker, entry
local LEASE = '<dIIdB'

local function pack_lease(host, worker, attempts, kills, priority, counted, entry)
  return struct.pack(LEASE, now, attempts, kills, priority, counted) .. host .. '\n' .. worker .. '\n' .. entry
end

local function host_and_worker(packed)
  return packed:match('^([^\n]*)\n([^\n]*)\n()', struct.size(LEASE) + 1)
end

local function unpacked(packed)
  local at, attempts, kills, priority, counted = struct.unpack(LEASE, packed)
  local host, _, rest = host_and_worker(packed)
  return { host = host, at = at, attempts = attempts, kills = kills, priority = priority, counted = counted,
    entry = packed:sub(rest) }
end

-- Take leases. Returns them by token; those that are no more are missing.
local function take_leases(tokens)
  local leases, found, names = {}, {}, {}
  if #tokens == 0 then
    return leases
  end
  for i, packed in ipairs(redis.call('HMGET', P .. 'inproc', unpack(tokens))) do
    if packed and not leases[tokens[i]] then
      local lease = unpacked(packed)
      leases[tokens[i]] = lease
      found[#found + 1], names[#names + 1] = tokens[i], lease.host
    end
  end
  if #found > 0 then
    redis.call('HDEL', P .. 'inproc', unpack(found))
    redis.call('ZREM', P .. 'lease', unpack(found))
    count('leased', -#found)
    load_all(names)
    for _, token in ipairs(found) do
      local lease = leases[token]
      lease.h = load(lease.host)
      lease.h.f = lease.h.f - 1
    end
  end
  return leases
end

-- The tokens that a member of `lease` stands for.
local function tokens_of(member)
  local first, many = member:match('^(%d+):(%d+)$')
  if not first then
    return { member }
  end
  local tokens = {}
  for i = 0, many - 1 do
    tokens[i + 1] = digits(first + i * ctl.partitions)
  end
  return tokens
end

-- Those of *tokens* that have no deadline of their own: they were never renewed.
local function not_renewed(tokens)
  local left = {}
  for i, deadline in ipairs(redis.call('ZMSCORE', P .. 'lease', unpack(tokens))) do
    if not deadline then
      left[#left + 1] = tokens[i]
    end
  end
  return left
end

-- When the next lease runs out; nothing if there is none. Of leases given together, those that have ended
-- or been renewed are no more.
local function first_deadline()
  for _ = 1, (ctr.leased or 0) > 0 and 16 or 0 do
    local first = redis.call('ZRANGE', P .. 'lease', 0, 0, 'WITHSCORES')
    if not first[1] then
      return nil
    end
    local tokens = tokens_of(first[1])
    local left = tokens[1] ~= first[1] and not_renewed(tokens) or tokens
    for _, packed in ipairs(#left > 0 and redis.call('HMGET', P .. 'inproc', unpack(left)) or {}) do
      if packed then
        return tonumber(first[2])
      end
    end
    redis.call('ZREM', P .. 'lease', first[1])
  end
  return (ctr.leased or 0) > 0 and now or nil  -- there were many that ended; the next look finds it
end

local TARGETS = 'ExceedTargetsCountLimit'  -- as crawlproj/crawls/notes.py says it

-- Put what a worker that died had leased back into its queue, unless it has killed too many of them. Returns
-- nothing, or where it may be leased anew at once (*to_hand*) how many it has killed.
local function after_death(lease, to_hand)
  local kills = lease.kills + 1
  if kills >= knob(lease.h, 'max_kills') then
    bury(lease.host, lease.entry, 'killed_its_worker', lease.attempts)
  elseif to_hand then
    return kills
  else
    push(lease.host, { item_of(lease.entry, lease.attempts, kills, 1) }, lease.priority, true, 0)
  end
end

-- Give leases that nobody renewed back to their hosts, a few at a time. The worker may have
-- fetched before it died, so the host keeps its interval. Returns how many. After a stop for the limit on targets they
-- stay what they are, for these have started, and the run is not over without them: next.lua hands them on.
local function reclaim()
  local given = 0
  if ctl.stop == TARGETS then
    return given
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. 'lease', '-inf', now, 'LIMIT', 0, 64)) do
    if given >= 64 then
      break
    end
    local tokens = tokens_of(member)
    local leases = take_leases(tokens[1] ~= member and not_renewed(tokens) or tokens)
    redis.call('ZREM', P .. 'lease', member)
    for _, token in ipairs(tokens) do
      local lease = leases[token]
      if lease then
        after_death(lease)
        lease.h.nd = math.max(lease.h.nd, now + interval_of(lease.h))
        given = given + 1
      end
    end
  end
  count('reclaimed', given)
  return given
end
