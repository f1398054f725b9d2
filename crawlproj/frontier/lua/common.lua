-- What every operation shares; put in front of each of them, so that one script is one operation.
--
-- KEYS[1]  the prefix of one partition of a crawl's frontier, `frontier:{id}:`; its keys share the hash tag
--
--   ctl        string  the crawl's knobs (crawlproj/knobs.py) and switches (paused, stop, closed, …), packed
--   ctr        string  counters, packed, changed in the script that changes what they count
--   s:<n>      set     seen fingerprints, as integers, in shards small enough to stay compact
--   b:<n>      string  or bits of the Bloom filter, if that is the seen filter
--   r:<n>      set     fingerprints of the results
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
-- operation that changes something ends. How much a host has queued is asked of its lists: an entry
-- that finds others in front of it changes nothing else, so most links cost two commands.

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
now = now + (ctl.clock_offset_ms or 0)  -- for tests, which cannot wait for days

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

-- st: structure (r i s p t x); f in flight; nd next due, ms; sp spent; ss spent when its session began
-- (-1: it ended while the host slept); er errors; bo backoff steps; ba when the last began; lv priorities
-- other than 0; cd crawl-delay of its robots.txt, ms; k its own knobs, and `blocked`, by name (false: none)
local FIELDS = { 'st', 'f', 'nd', 'sp', 'ss', 'er', 'bo', 'ba', 'lv', 'cd', 'k' }
local FRESH = { '', 0, 0, 0, 0, 0, 0, 0, 0, 0, false }
local hosts, touched = {}, {}

-- How many entries a host has queued.
local function queued(h)
  if not h.q then
    h.q = redis.call('LLEN', P .. 'q:' .. h.name)
    if h.lv > 0 then
      for _, level in ipairs(redis.call('ZRANGE', P .. 'p:' .. h.name, 0, -1)) do
        h.q = h.q + redis.call('LLEN', P .. 'l:' .. level .. ':' .. h.name)
      end
    end
  end
  return h.q
end

local function has_queued(h)
  if h.q then
    return h.q > 0
  end
  return h.lv > 0 or redis.call('EXISTS', P .. 'q:' .. h.name) == 1
end

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
  h.held = h.st == 't' and queued(h) or 0
  hosts[host] = h
  touched[#touched + 1] = h
  return h
end

-- A knob of a host: its own value, or the crawl's.
local function knob(h, name)
  local own = h.k and h.k[name]
  return own or ctl[name]
end

-- Milliseconds between two starts, and whether that is the host's own affair: set by an operator, or asked
-- for by its robots.txt, which never makes it faster than the crawl.
local function interval_of(h)
  local own = h.k and h.k.interval_ms
  if own then
    return own, true
  elseif h.cd > 0 then
    local asked = math.min(h.cd, knob(h, 'crawl_delay_max_ms'))
    return math.max(asked, ctl.interval_ms), asked > ctl.interval_ms
  end
  return ctl.interval_ms, false
end

local function is_retired(h)
  local k, budget = h.k, knob(h, 'total_budget')
  return (k and k.blocked == 1) or (budget >= 0 and h.sp >= budget)
    or knob(h, 'precedence') >= ctl.precedence_floor
end

local function session_is_over(h)
  local balance = knob(h, 'session_balance')
  return h.ss < 0 or (balance > 0 and h.sp - h.ss > balance)
end

local ready  -- how many hosts are ready, once somebody has asked

local function ready_has_room()
  ready = ready or redis.call('ZCARD', P .. 'ready')
  return ready < ctl.ready_backlog
end

-- Whether an inactive host has a better precedence.
local function better_waits(h)
  if not ctl.precedences then
    return false  -- nobody has set any
  end
  local first = redis.call('ZRANGE', P .. 'inactive', 0, 0, 'WITHSCORES')[2]
  return first and math.floor(tonumber(first) / 4398046511104) < knob(h, 'precedence')
end

local function structure(h)
  if h.f > 0 and (h.f >= knob(h, 'in_flight') or not has_queued(h)) then
    return 'p'
  elseif not has_queued(h) then
    if h.k and h.k.blocked == 1 then
      return 't'
    end
    return h.nd > now and 's' or 'x'
  elseif is_retired(h) then
    return 't'
  elseif h.nd > now then
    return 's'
  elseif ctl.hold_queues ~= 1 then
    return 'r'
  elseif session_is_over(h) then
    return 'i'
  elseif h.st == 'r' or h.st == 'i' then
    return h.st
  elseif ready_has_room() and not better_waits(h) then
    return 'r'
  end
  return 'i'
end

local STRUCTURE = {
  r = { 'ZREM', 'ready' }, i = { 'ZREM', 'inactive' }, s = { 'ZREM', 'snoozed' },
  p = { 'SREM', 'inprocess' }, t = { 'SREM', 'retired' }, x = { 'HDEL', 'exhausted' },
}

local function take_out(h)
  if h.st ~= '' then
    redis.call(STRUCTURE[h.st][1], P .. STRUCTURE[h.st][2], h.name)
    ready = nil
    h.st = ''
  end
end

local function turn(h)
  count('turn', 1)
  return digits(knob(h, 'precedence') * 4398046511104 + ctr.turn)
end

-- Write a host back and put it where it belongs. One that has been taken out already says so with
-- an empty `st`.
local function place(h)
  local old, new = h.st, structure(h)
  hosts[h.name] = nil
  if old ~= new then
    take_out(h)
  end
  if new == 'i' and old ~= 'i' then
    h.ss = h.sp
  elseif new == 'r' and h.ss < 0 then
    h.ss = h.sp
  elseif new == 's' and h.nd - now >= knob(h, 'snooze_deactivate_ms') then
    h.ss = -1
  end
  h.st = new
  count('held', (new == 't' and queued(h) or 0) - h.held)
  local values = { new, h.f, h.nd, h.sp, h.ss, h.er, h.bo, h.ba, h.lv, h.cd, h.k }
  local packed = cmsgpack.pack(values)
  if new == 'x' then
    redis.call('HSET', P .. 'exhausted', h.name, packed)
    redis.call('DEL', P .. 'h:' .. h.name)
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
    ready = ready and ready + 1
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
  found[10] = ctl.paused or 0
  found[11] = ctl.stop or ''
  found[12] = ctl.closed or 0
  found[13] = ctl.version
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

local any_retired  -- whether there are retired hosts, once somebody has asked

-- Queue an item. A host that has others in the same list is not even looked at.
local function push(host, item, priority, head)
  local how, level, length = head and 'LPUSH' or 'RPUSH', nil, nil
  if priority == 0 then
    length = redis.call(how, P .. 'q:' .. host, item)
  else
    level = digits(priority)
    length = redis.call(how, P .. 'l:' .. level .. ':' .. host, item)
  end
  count('queued', 1)
  count('fresh', fresh(item))
  local h = hosts[host]
  if length == 1 then
    if not h then
      h = load(host)
      if h.st == 't' and not level then
        h.held = h.held - 1  -- that counted this one, too
      end
    elseif h.q then
      h.q = h.q + 1
    end
    if level then
      h.lv = h.lv + redis.call('ZADD', P .. 'p:' .. host, level, level)
      h.q = nil
    end
  elseif h then
    h.q = h.q and h.q + 1
  else
    if any_retired == nil then
      any_retired = redis.call('EXISTS', P .. 'retired') == 1
    end
    if any_retired and redis.call('SISMEMBER', P .. 'retired', host) == 1 then
      count('held', 1)
    end
  end
end

-- Take the first item of the highest priority. Returns it and its priority; nothing if there is none.
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
  if item then
    h.q = h.q and h.q - 1
    count('queued', -1)
    count('fresh', -fresh(item))
  end
  return item, priority
end

local function item_of(entry, attempts, kills, counted)
  if attempts == 0 and kills == 0 and counted == 0 and entry:byte(1) ~= 33 then
    return entry
  end
  return '!' .. attempts .. ',' .. kills .. ',' .. counted .. '!' .. entry
end

local function entry_of(item)
  if item:byte(1) ~= 33 then
    return item, 0, 0, 0
  end
  local attempts, kills, counted, start = item:match('^!(%d+),(%d+),(%d)!()')
  if not attempts then
    return item, 0, 0, 0
  end
  return item:sub(start), tonumber(attempts), tonumber(kills), tonumber(counted)
end

local function shard(fp)
  return math.floor(fp / SHARD)
end

-- Bits of a Bloom filter in blocks of 128 KB, each position from two halves of the fingerprint: in smaller
-- blocks two fingerprints would too often have all their positions in common.
local BLOCK = 1048576

local function mark_in_bloom(fp)
  local low, high = tonumber(fp:sub(-9)), math.abs(tonumber(fp:sub(1, -10)) or 0)
  local position, step = low % BLOCK, high % BLOCK
  local call = { 'BITFIELD', P .. 'b:' .. math.floor((fp / 18446744073709551616 + 0.5) * ctl.bloom_blocks) }
  for i = 1, ctl.bloom_bits do
    call[#call + 1], call[#call + 2], call[#call + 3], call[#call + 4] = 'SET', 'u1', position, 1
    position = (position + step + i) % BLOCK
  end
  for _, before in ipairs(redis.call(unpack(call))) do
    if before == 0 then
      return 1
    end
  end
  return 0
end

-- Mark a fingerprint seen. Returns 1 if it was not.
local function mark(fp)
  if ctl.bloom_blocks then
    return mark_in_bloom(fp)
  end
  return redis.call('SADD', P .. 's:' .. shard(fp), fp)
end

-- Let links in: five arguments each, from ARGV[first] to ARGV[last]: host, fingerprint, priority, flags, entry.
-- Flags: f queued even if seen, h at the head, c not a target of its own, a<n> after n attempts.
-- Marking it seen and queuing it are one step. Returns how many were new.
local function admit(first, last)
  local added, marked = 0, 0
  for i = first, last, 5 do
    local flags = ARGV[i + 3]
    local new = mark(ARGV[i + 1])
    marked = marked + new
    if flags == '' then
      if new == 1 then
        push(ARGV[i], item_of(ARGV[i + 4], 0, 0, 0), tonumber(ARGV[i + 2]), false)
        added = added + 1
      end
    elseif new == 1 or flags:find('f', 1, true) then
      local attempts = tonumber(flags:match('a(%d+)') or 0)
      local item = item_of(ARGV[i + 4], attempts, 0, flags:find('c', 1, true) and 1 or 0)
      push(ARGV[i], item, tonumber(ARGV[i + 2]), flags:find('h', 1, true))
      added = added + 1
    end
  end
  count('seen', marked)
  if added > 0 and ctl.may_finish then
    switch('may_finish', nil)
  end
  return added
end

local function bury(host, entry, reason, attempts)
  count('dead', 1)
  redis.call('XADD', P .. 'dead', '*', 'host', host, 'entry', entry, 'reason', reason, 'attempts', attempts)
end

-- The wait before attempt `steps` + 2, jitter in 0…1.
local function retry_wait(h, steps, jitter)
  return knob(h, 'retry_delay_ms') * 2 ^ math.min(steps, 30) * (0.75 + jitter / 2)
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
    wait = retry_wait(h, h.bo - 1, jitter)
  end
  h.ba = now
  h.nd = math.max(h.nd, math.floor(now + math.min(wait, knob(h, 'retry_delay_max_ms'))))
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
    if kills >= knob(lease.h, 'max_kills') then
      bury(lease.host, lease.entry, 'killed_its_worker', lease.attempts)
    else
      push(lease.host, item_of(lease.entry, lease.attempts, kills, 1), lease.priority, true)
    end
    lease.h.nd = math.max(lease.h.nd, now + interval_of(lease.h))
    count('reclaimed', 1)
  end
  return #expired
end
