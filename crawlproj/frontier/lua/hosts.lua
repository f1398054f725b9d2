-- Hosts: their fields and knobs, the structure that each of them is in, and how all that is written back.

-- A host's fields. st: structure (r i s p t x); f in flight; lv priorities other than 0; nd next due, ms; sp spent;
-- ss spent when its session began (-1: it ended while the host slept). Most hosts have no `more`: er errors; bo
-- backoff steps; ba when the last began; bu when it ends, while that is still to come; cd crawl-delay of its robots.txt,
-- ms; li what has the place of the crawl's interval for hosts of its language, ms; k its own knobs, and `blocked`.
local FIXED = '<c1IIddd'
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
  if h.has == nil then
    h.has = h.lv > 0 or redis.call('EXISTS', P .. 'q:' .. h.name) == 1
  end
  return h.has
end

-- Ask for all of them at once whether they have anything queued; mostly they all have.
local function ask_whether_queued(all)
  local keys = {}
  for i, h in ipairs(all) do
    keys[i] = P .. 'q:' .. h.name
  end
  if #keys > 1 and #keys < MOST and redis.call('EXISTS', unpack(keys)) == #keys then
    for _, h in ipairs(all) do
      h.has = true
    end
  end
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
  if m and m.bu and m.bu <= now then
    m.bu = nil
  end
  if m and (m.er ~= 0 or m.bo ~= 0 or m.cd ~= 0 or m.k or m.li or m.bu) then
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

-- Milliseconds between two starts, and who says so: `host` (an operator, of this host), `robots` (its
-- crawl-delay, where that is longer than the rest), `language`, or nobody but the crawl.
local function interval_of(h)
  local m = h.more
  if not m then
    return ctl.interval_ms, nil
  elseif m.k and m.k.interval_ms then
    return m.k.interval_ms, 'host'
  end
  local interval = m.li or ctl.interval_ms
  local asked = m.cd > 0 and math.min(m.cd, knob(h, 'crawl_delay_max_ms')) or 0
  if asked > interval then
    return asked, 'robots'
  end
  return interval, m.li and 'language'
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

-- What is written in the end: hosts that leave and enter a structure, and fields.
local leaving, entering, fields, exhausted, forgotten, moved
local write

local ready  -- how many hosts are ready, once somebody has asked

local function ready_has_room()
  ready = ready or redis.call('ZCARD', P .. 'ready') - #leaving.r + #entering.r / 2
  return ready < ctl.ready_backlog
end

-- Whether an inactive host has a better precedence.
local function better_waits(h)
  if not ctl.precedences then
    return false  -- nobody has set any
  end
  write()  -- what has left is not to be waited for
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

local NAMES = { r = 'ready', i = 'inactive', s = 'snoozed', t = 'retired', x = 'exhausted' }


local function nothing_to_write()
  leaving = { r = {}, i = {}, s = {}, t = {}, x = {} }
  entering = { r = {}, i = {}, s = {}, t = {} }
  fields, exhausted, forgotten = {}, {}, {}
  moved = false
end
nothing_to_write()

local LEAVE = { r = 'ZREM', i = 'ZREM', s = 'ZREM', t = 'SREM', x = 'HDEL' }

write = function()
  if not moved then
    return
  end
  for letter, list in pairs(leaving) do
    if #list > 0 then
      call_with(list, LEAVE[letter], P .. NAMES[letter])
    end
  end
  for letter, list in pairs(entering) do
    if #list > 0 then
      call_with(list, letter == 't' and 'SADD' or 'ZADD', P .. NAMES[letter])
    end
  end
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
  moved = true
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
  moved = true
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

-- Write everything back. Returns the figures.
local function settle()
  place_all()
  if counted then
    redis.call('SET', P .. 'ctr', cmsgpack.pack(ctr))
  end
  return figures()
end
