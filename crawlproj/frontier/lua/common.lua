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
--   retired    set     hosts
--   exhausted  hash    host -> its fields, packed; nothing is left to do there
--   delayed    zset    packed entry -> time of its next attempt, ms
--   inproc     hash    token -> packed lease
--   lease      zset    "first token:how many" of leases given together, or one that was renewed -> deadline, ms
--   dead       stream  what will not be tried again, and why
--
-- A host is in exactly one of ready, inactive, snoozed, in process, retired, exhausted: `place` alone moves
-- it. In process is what its fields say and no key of its own: its leases are in `inproc`. An item of a
-- queue is the entry, or "!attempts,kills,counted!entry".
--
-- A command costs more than what it does, so there are few: hosts and counters are read together, changed in
-- memory, and written together by `settle`, with which every operation that changes something ends. How much
-- a host has queued is asked of its lists: an entry that finds others in front of it changes nothing else.

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
  return string.format('%d', number)
end

-- Call a command with a list of any length behind its first words.
local MOST = 3000  -- Lua takes no more than some thousand arguments
local function call_with(list, ...)
  if #list == 0 then
    return
  end
  local words = { ... }
  for first = 1, #list, MOST do
    local part = {}
    for i = first, math.min(first + MOST - 1, #list) do
      part[#part + 1] = list[i]
    end
    redis.call(words[1], words[2] or part[1], unpack(part, words[2] and 1 or 2))
  end
end

-- A host's fields. st: structure (r i s p t x); f in flight; lv priorities other than 0; nd next due, ms; sp spent;
-- ss spent when its session began (-1: it ended while the host slept). Most hosts have no `more`: er errors; bo
-- backoff steps; ba when the last began; cd crawl-delay of its robots.txt, ms; k its own knobs, and `blocked`.
local FIXED = '<c1HHddd'
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

local function keep(host, packed)
  local h
  if packed then
    local st, f, lv, nd, sp, ss, rest = struct.unpack(FIXED, packed)
    h = { name = host, st = st, f = f, lv = lv, nd = nd, sp = sp, ss = ss,
      more = rest <= #packed and cmsgpack.unpack(packed:sub(rest)) }
    if st == 't' then
      h.held = queued(h)
    elseif st == 's' then
      h.snoozed_until = nd
    end
  else
    h = { name = host, st = '', f = 0, lv = 0, nd = 0, sp = 0, ss = 0, more = false }
  end
  hosts[host] = h
  touched[#touched + 1] = h
  return h
end

-- What few hosts have, to be changed.
local function more_of(h)
  h.more = h.more or { er = 0, bo = 0, ba = 0, cd = 0, k = false }
  return h.more
end

local function packed_more(h)
  local m = h.more
  if m and (m.er ~= 0 or m.bo ~= 0 or m.cd ~= 0 or m.k) then
    return cmsgpack.pack(m)
  end
  return ''
end

local function load(host)
  return hosts[host]
    or keep(host, redis.call('GET', P .. 'h:' .. host) or redis.call('HGET', P .. 'exhausted', host))
end

-- Load hosts that have something queued, leased or to wait for, in one go.
local function load_all(names)
  local missing, keys = {}, {}
  for _, host in ipairs(names) do
    if not hosts[host] and not missing[host] then
      missing[host] = true
      missing[#missing + 1], keys[#keys + 1] = host, P .. 'h:' .. host
    end
  end
  for first = 1, #keys, MOST do
    local found = redis.call('MGET', unpack(keys, first, math.min(first + MOST - 1, #keys)))
    for i, packed in ipairs(found) do
      local host = missing[first + i - 1]
      if packed then
        keep(host, packed)
      else
        load(host)
      end
    end
  end
end

-- A knob of a host: its own value, or the crawl's.
local function knob(h, name)
  local m = h.more
  return m and m.k and m.k[name] or ctl[name]
end

-- Milliseconds between two starts, and whether that is the host's own affair: set by an operator, or asked
-- for by its robots.txt, which never makes it faster than the crawl.
local function interval_of(h)
  local m = h.more
  if not m then
    return ctl.interval_ms, false
  elseif m.k and m.k.interval_ms then
    return m.k.interval_ms, true
  elseif m.cd > 0 then
    local asked = math.min(m.cd, knob(h, 'crawl_delay_max_ms'))
    return math.max(asked, ctl.interval_ms), asked > ctl.interval_ms
  end
  return ctl.interval_ms, false
end

local function is_blocked(h)
  local m = h.more
  return m and m.k and m.k.blocked == 1
end

local function is_retired(h)
  local budget = knob(h, 'total_budget')
  return is_blocked(h) or (budget >= 0 and h.sp >= budget)
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
    if is_blocked(h) then
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

local SCORED = { r = 'ready', i = 'inactive', s = 'snoozed' }

-- What is written in the end: hosts that leave and enter a structure, and fields.
local leaving, entering, fields, exhausted, forgotten

local function nothing_to_write()
  leaving = { r = {}, i = {}, s = {}, t = {}, x = {} }
  entering = { r = {}, i = {}, s = {}, t = {} }
  fields, exhausted, forgotten = {}, {}, {}
end
nothing_to_write()

local function write()
  for letter, name in pairs(SCORED) do
    call_with(leaving[letter], 'ZREM', P .. name)
    call_with(entering[letter], 'ZADD', P .. name)
  end
  call_with(leaving.t, 'SREM', P .. 'retired')
  call_with(entering.t, 'SADD', P .. 'retired')
  call_with(leaving.x, 'HDEL', P .. 'exhausted')
  call_with(exhausted, 'HSET', P .. 'exhausted')
  call_with(fields, 'MSET')
  call_with(forgotten, 'DEL')
  nothing_to_write()
end

local function append(list, ...)
  for _, each in ipairs({ ... }) do
    list[#list + 1] = each
  end
end

local function take_out(h)
  if h.st == 'p' then
    count('inprocess', -1)
  elseif h.st ~= '' then
    local list = leaving[h.st]
    list[#list + 1] = h.name
    if h.st == 'r' then
      ready = ready and ready - 1
    end
  end
  h.st = ''
end

local function turn(h)
  count('turn', 1)
  return digits(knob(h, 'precedence') * 4398046511104 + ctr.turn)
end

-- Put a host where it belongs; `write` does it. One that has been taken out already says so with an empty `st`.
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
  if new == 't' or h.held then
    count('held', (new == 't' and queued(h) or 0) - (h.held or 0))
  end
  local key = P .. 'h:' .. h.name
  local packed = struct.pack(FIXED, new, h.f, h.lv, h.nd, h.sp, h.ss) .. packed_more(h)
  if new == 'x' then
    append(exhausted, h.name, packed)
    forgotten[#forgotten + 1] = key
    return
  end
  local n = #fields
  fields[n + 1], fields[n + 2] = key, packed
  if new == 's' then
    if old ~= 's' or h.nd ~= h.snoozed_until then
      append(entering.s, digits(h.nd), h.name)
    end
  elseif new == old then
    return
  elseif new == 'p' then
    count('inprocess', 1)
  elseif new == 't' then
    append(entering.t, h.name)
  else
    local list = entering[new]
    local i = #list
    list[i + 1], list[i + 2] = turn(h), h.name
    if new == 'r' then
      ready = ready and ready + 1
    end
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
  write()
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

-- Queue items, of which so many would be new targets. A host that has others in the same list is not even looked at.
local function push(host, items, priority, head, targets)
  local how, level, length = head and 'LPUSH' or 'RPUSH', nil, nil
  if priority == 0 then
    length = redis.call(how, P .. 'q:' .. host, unpack(items))
  else
    level = digits(priority)
    length = redis.call(how, P .. 'l:' .. level .. ':' .. host, unpack(items))
  end
  count('queued', #items)
  count('fresh', targets)
  local h = hosts[host]
  if length == #items then
    if not h then
      h = load(host)
      if h.st == 't' and not level then
        h.held = h.held - #items  -- that counted these, too
      end
    elseif h.q then
      h.q = h.q + #items
    end
    if level then
      h.lv = h.lv + redis.call('ZADD', P .. 'p:' .. host, level, level)
      h.q = nil
    end
  elseif h then
    h.q = h.q and h.q + #items
  else
    if any_retired == nil then
      any_retired = redis.call('EXISTS', P .. 'retired') == 1
    end
    if any_retired and redis.call('SISMEMBER', P .. 'retired', host) == 1 then
      count('held', #items)
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
  local added, marked, plain, order = 0, 0, {}, {}
  for i = first, last, 5 do
    local host, flags, entry = ARGV[i], ARGV[i + 3], ARGV[i + 4]
    local new = mark(ARGV[i + 1])
    marked = marked + new
    if flags == '' and ARGV[i + 2] == '0' then
      if new == 1 then
        local items = plain[host]
        if not items then
          items = {}
          plain[host], order[#order + 1] = items, host
        end
        items[#items + 1] = item_of(entry, 0, 0, 0)
        added = added + 1
      end
    elseif new == 1 or flags:find('f', 1, true) then
      local counted = flags:find('c', 1, true) and 1 or 0
      local attempts = tonumber(flags:match('a(%d+)') or 0)
      push(host, { item_of(entry, attempts, 0, counted) }, tonumber(ARGV[i + 2]), flags:find('h', 1, true), 1 - counted)
      added = added + 1
    end
  end
  for _, host in ipairs(order) do
    push(host, plain[host], 0, false, #plain[host])
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
  local wait, m = asked, more_of(h)
  if wait <= 0 then
    if m.bo > 0 and leased_at <= m.ba then
      return
    end
    m.bo = m.bo + 1
    wait = retry_wait(h, m.bo - 1, jitter)
  end
  m.ba = now
  h.nd = math.max(h.nd, math.floor(now + math.min(wait, knob(h, 'retry_delay_max_ms'))))
end

-- A lease: leased at, attempts, kills, priority, whether this lease counted as a target; host, worker, entry
local LEASE = '<dHHdB'

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

-- Give leases that nobody renewed back to their hosts, a few at a time. The worker may have
-- fetched before it died, so the host keeps its interval. Returns how many.
local function reclaim()
  local given = 0
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
        local kills = lease.kills + 1
        if kills >= knob(lease.h, 'max_kills') then
          bury(lease.host, lease.entry, 'killed_its_worker', lease.attempts)
        else
          push(lease.host, { item_of(lease.entry, lease.attempts, kills, 1) }, lease.priority, true, 0)
        end
        lease.h.nd = math.max(lease.h.nd, now + interval_of(lease.h))
        given = given + 1
      end
    end
  end
  count('reclaimed', given)
  return given
end
