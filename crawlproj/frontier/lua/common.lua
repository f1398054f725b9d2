-- What every operation shares; put in front of each of them, so that one script is one operation.
--
-- KEYS[1]  the prefix of one crawl's frontier, `frontier:{id}:`; all its keys share the hash tag
--
--   ctl        string  the crawl's knobs and switches (shards, backlog, …, paused, stop, closed), packed
--   ctr        string  counters, packed, changed in the script that changes what they count
--   s:<n>      set     seen fingerprints, as integers, in shards small enough to stay compact
--   r:<n>      set     fingerprints of the results, likewise
--   h:<host>   string  one host's fields, packed, as long as it has something queued, leased or to wait for
--   q:<host>   list    its entries of priority 0, first in first out
--   l:<p>:<host> list  its entries of priority p; p:<host> zset names the priorities there are
--   ready, inactive    zset host -> precedence * 2^42 + turn
--   snoozed    zset    host -> time it may be asked again, ms
--   inprocess, retired set of hosts
--   exhausted  hash    host -> its fields, packed; nothing is left to do there
--   delayed    zset    packed entry -> time of its next attempt, ms
--   lease      zset    token -> deadline, ms;  inproc hash token -> packed lease
--   dead       stream  what will not be tried again, and why
--
-- A host is in exactly one of ready, inactive, snoozed, inprocess, retired, exhausted: `place`
-- alone moves it. An item of a queue is the entry, or "!attempts,kills,counted!entry".
--
-- Hosts and counters are read, changed in memory, and written once, by `settle`, with which every
-- operation that changes something ends.

local P = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Packed, for every operation reads them: a hash of as many fields takes three times as long.
local ctl = redis.call('GET', P .. 'ctl')
if not ctl then
  return redis.error_reply('NOFRONTIER there is no such frontier')
end
ctl = cmsgpack.unpack(ctl)
local SHARD = 18446744073709551616 / ctl.shards

local ctr = redis.call('GET', P .. 'ctr')
ctr = ctr and cmsgpack.unpack(ctr) or {}
local counted = false

local function count(name, by)
  if by ~= 0 then
    ctr[name] = (ctr[name] or 0) + by
    counted = true
  end
end

local function switch(name, value)
  ctl[name] = value
  redis.call('SET', P .. 'ctl', cmsgpack.pack(ctl))
end

-- A whole number in digits: left alone, Lua would write a large one with an exponent.
local function digits(number)
  return string.format('%.0f', number)
end

-- st: structure (r i s p t x); q queued; f in flight; nd next due, ms; sp spent; ss spent when its
-- session began; er errors; pr precedence; bo backoff steps; ba when the last began; lv priorities
-- other than 0; bl blocked; iv interval, ms (-1: the default), fl in-flight limit (-1), bu budget (-2)
local FIELDS = { 'st', 'q', 'f', 'nd', 'sp', 'ss', 'er', 'pr', 'bo', 'ba', 'lv', 'bl', 'iv', 'fl', 'bu' }
local FRESH = { '', 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1, -1, -2 }
local hosts, touched = {}, {}

local function load(host)
  local h = hosts[host]
  if h then
    return h
  end
  local packed = redis.call('GET', P .. 'h:' .. host) or redis.call('HGET', P .. 'exhausted', host)
  local values = packed and cmsgpack.unpack(packed) or FRESH
  h = { name = host, packed = packed }
  for i, field in ipairs(FIELDS) do
    h[field] = values[i]
  end
  h.snoozed_until = h.nd
  h.held = h.st == 't' and h.q or 0
  hosts[host] = h
  touched[#touched + 1] = h
  return h
end

local function limit_of(h)
  return h.fl > 0 and h.fl or ctl.in_flight
end

local function budget_of(h)
  return h.bu > -2 and h.bu or ctl.budget
end

local function is_retired(h)
  local budget = budget_of(h)
  return h.bl == 1 or h.pr >= ctl.floor or (budget >= 0 and h.sp >= budget)
end

local function structure(h)
  if h.f > 0 and (h.q == 0 or h.f >= limit_of(h)) then
    return 'p'
  elseif h.q == 0 then
    if h.bl == 1 then
      return 't'
    end
    return h.nd > now and 's' or 'x'
  elseif is_retired(h) then
    return 't'
  elseif h.nd > now then
    return 's'
  elseif ctl.balance > 0 and h.sp - h.ss > ctl.balance then
    return 'i'  -- its session is over
  elseif h.st == 'r' or h.st == 'i' then
    return h.st
  elseif redis.call('ZCARD', P .. 'ready') < ctl.backlog then
    return 'r'
  end
  return 'i'
end

local STRUCTURE = {
  r = { 'ZREM', 'ready' }, i = { 'ZREM', 'inactive' }, s = { 'ZREM', 'snoozed' },
  p = { 'SREM', 'inprocess' }, t = { 'SREM', 'retired' }, x = { 'HDEL', 'exhausted' },
}

local function take_out(h, letter)
  redis.call(STRUCTURE[letter][1], P .. STRUCTURE[letter][2], h.name)
end

local function turn(h)
  count('turn', 1)
  return digits(h.pr * 4398046511104 + ctr.turn)
end

-- Write a host back and put it where it belongs. One that has been taken out already says so with
-- an empty `st`.
local function place(h)
  local old, new = h.st, structure(h)
  hosts[h.name] = nil
  if old ~= new and old ~= '' then
    take_out(h, old)
  end
  if new == 'i' and old ~= 'i' then
    h.ss = h.sp
  end
  h.st = new
  count('held', (new == 't' and h.q or 0) - h.held)
  local values = {}
  for i, field in ipairs(FIELDS) do
    values[i] = h[field]
  end
  local packed = cmsgpack.pack(values)
  if new == 'x' then
    redis.call('HSET', P .. 'exhausted', h.name, packed)
    redis.call('UNLINK', P .. 'h:' .. h.name)
    return
  elseif packed ~= h.packed then
    redis.call('SET', P .. 'h:' .. h.name, packed)
  end
  if new == 's' then
    if old ~= 's' or h.nd ~= h.snoozed_until then
      redis.call('ZADD', P .. 'snoozed', digits(h.nd), h.name)
    end
  elseif new == old then
    return
  elseif new == 'r' then
    redis.call('ZADD', P .. 'ready', turn(h), h.name)
  elseif new == 'i' then
    redis.call('ZADD', P .. 'inactive', turn(h), h.name)
  elseif new == 'p' then
    redis.call('SADD', P .. 'inprocess', h.name)
  elseif new == 't' then
    redis.call('SADD', P .. 'retired', h.name)
  end
end

-- In the order in which they came, so that the hosts of the first links have the first turns.
local function place_all()
  for _, h in ipairs(touched) do
    if hosts[h.name] == h then
      place(h)
    end
  end
  touched = {}
end

local FIGURES = { 'queued', 'held', 'leased', 'started', 'results', 'seen', 'dead', 'late', 'fresh' }

local function figures()
  local found = {}
  for i, name in ipairs(FIGURES) do
    found[i] = ctr[name] or 0
  end
  found[#found + 1] = ctl.paused or 0
  found[#found + 1] = ctl.stop or ''
  found[#found + 1] = ctl.closed or 0
  return found
end

-- Write everything back. Returns the figures.
local function settle()
  place_all()
  if counted then
    redis.call('SET', P .. 'ctr', cmsgpack.pack(ctr))
  end
  return figures()
end

-- 1 if an item would be a new target, else 0.
local function fresh(item)
  return (item:byte(1) == 33 and item:match('^!%d+,%d+,(%d)!') == '1') and 0 or 1
end

local function push(h, item, priority, head)
  local how = head and 'LPUSH' or 'RPUSH'
  if priority == 0 then
    redis.call(how, P .. 'q:' .. h.name, item)
  else
    local level = digits(priority)
    redis.call(how, P .. 'l:' .. level .. ':' .. h.name, item)
    h.lv = h.lv + redis.call('ZADD', P .. 'p:' .. h.name, level, level)
  end
  h.q = h.q + 1
  count('queued', 1)
  count('fresh', fresh(item))
end

-- Take the first item of the highest priority. Returns it and its priority; nothing if somebody has
-- been at the queue's keys, and then counts it as empty.
local function pop(h)
  local item, priority, level
  repeat
    level = h.lv > 0 and redis.call('ZREVRANGE', P .. 'p:' .. h.name, 0, 0)[1]
    if not level or tonumber(level) < 0 then
      item, priority = redis.call('LPOP', P .. 'q:' .. h.name), 0
    end
    if level and not item then
      local list = P .. 'l:' .. level .. ':' .. h.name
      item, priority = redis.call('LPOP', list), tonumber(level)
      if redis.call('EXISTS', list) == 0 then
        h.lv = h.lv - redis.call('ZREM', P .. 'p:' .. h.name, level)
      end
    end
  until item or not level
  local taken = item and 1 or h.q
  h.q = h.q - taken
  count('queued', -taken)
  count('fresh', item and -fresh(item) or 0)
  return item, priority
end

local function item_of(entry, attempts, kills, counted)
  if attempts == 0 and kills == 0 and counted == 0 and entry:byte(1) ~= 33 then
    return entry
  end
  return '!' .. attempts .. ',' .. kills .. ',' .. counted .. '!' .. entry
end

local function entry_of(item)
  local attempts, kills, counted, start = item:match('^!(%d+),(%d+),(%d)!()')
  if not attempts then
    return item, 0, 0, 0
  end
  return item:sub(start), tonumber(attempts), tonumber(kills), tonumber(counted)
end

local function shard(fp)
  return math.floor(fp / SHARD)
end

-- Let links in: five arguments each, from ARGV[first] on: host, fingerprint, priority, flags, entry.
-- Flags: f queued even if seen, h at the head, c not a target of its own.
-- Marking it seen and queuing it are one step. Returns how many were new.
local function admit(first)
  local added, marked = 0, 0
  for i = first, #ARGV, 5 do
    local fp, flags = ARGV[i + 1], ARGV[i + 3]
    local new = redis.call('SADD', P .. 's:' .. shard(fp), fp)
    marked = marked + new
    if new == 1 or (flags ~= '' and flags:find('f', 1, true)) then
      local entry = item_of(ARGV[i + 4], 0, 0, flags:find('c', 1, true) and 1 or 0)
      push(load(ARGV[i]), entry, tonumber(ARGV[i + 2]), flags:find('h', 1, true))
      added = added + 1
    end
  end
  count('seen', marked)
  return added
end

local function bury(host, entry, reason, attempts)
  count('dead', 1)
  redis.call('XADD', P .. 'dead', 'MAXLEN', '~', 100000, '*',
    'host', host, 'entry', entry, 'reason', reason, 'attempts', attempts)
end

-- Make a whole host wait: for what it asked for, else one exponential step per incident, and an
-- incident is everything that had started before the last wait began.
local function back_off(h, asked, jitter, leased_at)
  local wait = asked
  if wait <= 0 then
    if h.bo > 0 and leased_at <= h.ba then
      return
    end
    h.bo = h.bo + 1
    wait = ctl.retry_ms * 2 ^ math.min(h.bo - 1, 30) * (0.75 + jitter / 2)
  end
  h.ba = now
  h.nd = math.max(h.nd, math.floor(now + math.min(wait, ctl.retry_max_ms)))
end

-- Lease: host, worker, leased at, attempts, kills, priority, whether this lease counted as a target, entry
local function take_lease(token)
  local packed = redis.call('HGET', P .. 'inproc', token)
  if not packed then
    return nil
  end
  redis.call('HDEL', P .. 'inproc', token)
  redis.call('ZREM', P .. 'lease', token)
  count('leased', -1)
  local l = cmsgpack.unpack(packed)
  local lease = {
    host = l[1], worker = l[2], at = l[3], attempts = l[4], kills = l[5], priority = l[6],
    counted = l[7], entry = l[8],
  }
  lease.h = load(lease.host)
  lease.h.f = lease.h.f - 1
  return lease
end

-- Give leases that nobody renewed back to their hosts, a few at a time. The worker may have
-- fetched before it died, so the host keeps its interval.
local function reclaim()
  local expired = redis.call('ZRANGEBYSCORE', P .. 'lease', '-inf', now, 'LIMIT', 0, 32)
  for _, token in ipairs(expired) do
    local lease = take_lease(token)
    local kills = lease.kills + 1
    if kills >= ctl.max_kills then
      bury(lease.host, lease.entry, 'killed_its_worker', lease.attempts)
    else
      push(lease.h, item_of(lease.entry, lease.attempts, kills, 1), lease.priority, true)
    end
    local interval = lease.h.iv >= 0 and lease.h.iv or ctl.interval_ms
    lease.h.nd = math.max(lease.h.nd, now + interval)
    count('reclaimed', 1)
  end
  return #expired
end
