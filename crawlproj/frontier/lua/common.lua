-- What every operation shares. It is put in front of each of them, and after it what the operation needs of
-- hosts.lua, queues.lua and leases.lua, so that one script is one operation.
--
-- KEYS[1]  the prefix of one partition of a crawl's frontier, `frontier:{id}:`; its keys share the hash tag
--
--   ctl        string  the crawl's knobs (crawlproj/knobs.py) and switches (paused, stop, closed, …), packed;
--                      filling: 1 or 2 while pages of earlier runs are being brought in, see fill.lua;
--                      run: which run of the crawl it is open for, or was, see reopen.lua
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
--   cookies, cookie_turns, cookie_turn   in the first partition; see crawlproj/cookies/lua/share.lua
--
-- A host is in exactly one of ready, inactive, snoozed, in process, retired, exhausted: `place` alone moves
-- it. In process is what its fields say and no key of its own: its leases are in `inproc`. An item of a
-- queue is the entry, or "!attempts,kills,run!entry": the run in which it has counted as a target, or 0.
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
if ctl.format ~= 3 then  -- as in crawlproj/frontier/partition.py
  return redis.error_reply('FORMAT this frontier was written by another version')
end
local SHARD = 18446744073709551616 / ctl.shards
now = now + (ctl.clock_offset_ms or 0)  -- for tests, which cannot wait for days
if ctl.closing and ctl.closing <= now then
  ctl.closing = nil  -- whoever was sealing it has died
end

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

local FIGURES = {
  'queued', 'held', 'leased', 'started', 'results', 'seen', 'dead', 'late', 'fresh', 'admitted', 'over', 'bytes',
}

local function figures()
  local found = {}
  for i, name in ipairs(FIGURES) do
    found[i] = ctr[name] or 0
  end
  local n = #FIGURES
  found[n + 1] = ctl.paused or 0
  found[n + 2] = ctl.stop or ''
  found[n + 3] = ctl.closed or 0
  found[n + 4] = ctl.version
  found[n + 5] = ctl.filling or 0
  return found
end
