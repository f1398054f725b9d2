-- Queues: what waits in them, how links enter and how the first one leaves.

-- Parts of an item: entry, attempts, kills, and 1 if it has counted as a target. What has in an earlier run
-- has not in this one.
local function entry_of(item)
  if item:byte(1) ~= 33 then
    return item, 0, 0, 0
  end
  local attempts, kills, run, start = item:match('^!(%d+),(%d+),(%d+)!()')
  if not attempts then
    return item, 0, 0, 0
  end
  return item:sub(start), tonumber(attempts), tonumber(kills), tonumber(run) == ctl.run and 1 or 0
end

local function item_of(entry, attempts, kills, counted)
  if attempts == 0 and kills == 0 and counted == 0 and entry:byte(1) ~= 33 then
    return entry
  end
  return '!' .. attempts .. ',' .. kills .. ',' .. (counted == 1 and digits(ctl.run) or 0) .. '!' .. entry
end

-- 1 if an item would be a new target, else 0.
local function fresh(item)
  if item:byte(1) ~= 33 then
    return 1
  end
  local _, _, _, counted = entry_of(item)
  return 1 - counted
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
  if h then
    h.has = true
  end
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
  h.has = nil
  if item then
    h.q = h.q and h.q - 1
    count('queued', -1)
    count('fresh', -fresh(item))
  end
  return item, priority
end

local function shard(fp)
  return math.floor(fp / SHARD)
end

-- Bits of a Bloom filter in blocks that just fit into 128 KB, each position from two halves of the fingerprint: in
-- smaller blocks two fingerprints would too often have all their positions in common. A bit behind them, written
-- each time, gives a block its whole length at once; one that grew would take twice the memory.
local BLOCK = 1048000

-- Read the bits of a fingerprint, or set them. Returns whether all of them were set.
local function bits(fp, set)
  local low, high = tonumber(fp:sub(-9)), math.abs(tonumber(fp:sub(1, -10)) or 0)
  local position, step = low % BLOCK, high % BLOCK
  local call = { 'BITFIELD', P .. 'b:' .. math.floor((fp / 18446744073709551616 + 0.5) * ctl.bloom_blocks) }
  for i = 1, ctl.bloom_bits do
    local n = #call
    call[n + 1], call[n + 2], call[n + 3], call[n + 4] = set and 'SET' or 'GET', 'u1', position, set and 1 or nil
    position = (position + step + i) % BLOCK
  end
  if set then
    call[#call + 1], call[#call + 2], call[#call + 3], call[#call + 4] = 'SET', 'u1', BLOCK, 0
  end
  local before = redis.call(unpack(call))
  for i = 1, ctl.bloom_bits do
    if before[i] == 0 then
      return false
    end
  end
  return true
end

-- Mark a fingerprint seen. Returns 1 if it was not.
local function mark(fp)
  if ctl.bloom_blocks then
    return bits(fp, true) and 0 or 1
  end
  return redis.call('SADD', P .. 's:' .. shard(fp), fp)
end

local function is_seen(fp)
  if ctl.bloom_blocks then
    return bits(fp, false)
  end
  return redis.call('SISMEMBER', P .. 's:' .. shard(fp), fp) == 1
end

-- How many URLs may still be let in: this partition's share of the limit less those that have been.
local function room()
  if ctl.max_urls == 0 then
    return math.huge
  end
  local share = math.floor((ctl.max_urls + ctl.partitions - 1 - ctl.partition) / ctl.partitions)
  return share - (ctr.admitted or 0)
end

-- Let links in: five arguments each, from ARGV[first] to ARGV[last]: host, fingerprint, priority, flags, entry.
-- Flags: f queued even if seen, h at the head, c not a target of its own, r let in before under another fingerprint,
-- a<n> after n attempts. Marking it seen and queuing it are one step. One that is new and no room is left for is turned
-- away, without a mark; those with c or r take none. Returns how many were let in.
local function admit(first, last)
  local added, marked, admitted, over, plain, order = 0, 0, 0, 0, {}, {}
  local left = room()
  local function push_plain()
    for _, host in ipairs(order) do
      push(host, plain[host], 0, false, #plain[host])
    end
    plain, order = {}, {}
  end
  for i = first, last, 5 do
    local host, flags, entry = ARGV[i], ARGV[i + 3], ARGV[i + 4]
    local counted = flags ~= '' and flags:find('c', 1, true) and 1 or 0
    local takes = (flags == '' or not flags:find('[cr]')) and 1 or 0
    local new, away = 0, false
    if left > 0 or takes == 0 then
      new = mark(ARGV[i + 1])
      marked = marked + new
      admitted = admitted + new * takes
      left = left - new * takes
    else
      away = not is_seen(ARGV[i + 1])
    end
    if away then
      over = over + 1
    elseif flags == '' and ARGV[i + 2] == '0' then
      if new == 1 then
        local items, item = plain[host], item_of(entry, 0, 0, 0)
        if items then
          items[#items + 1] = item
        else
          plain[host], order[#order + 1] = { item }, host
        end
        added = added + 1
      end
    elseif new == 1 or flags:find('f', 1, true) then
      push_plain()  -- hosts have their turns in the order of their first links
      local attempts = tonumber(flags:match('a(%d+)') or 0)
      push(host, { item_of(entry, attempts, 0, counted) }, tonumber(ARGV[i + 2]), flags:find('h', 1, true), 1 - counted)
      added = added + 1
    end
  end
  push_plain()
  count('seen', marked)
  count('admitted', admitted)
  count('over', over)
  if added > 0 and ctl.may_finish then
    switch('may_finish', nil)
  end
  return added
end
