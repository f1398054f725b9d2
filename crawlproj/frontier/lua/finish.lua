-- End leases: outlinks enter, the lease leaves, its host is timed anew, in one step.
-- KEYS[1] prefix   ARGV per lease: token, outcome, asked wait in ms (0: none), incident (1: the whole host
-- waits), jitter in thousandths, fetch duration in ms (-1: not fetched), bytes, number of result
-- fingerprints, number of links, these fingerprints, then links as in schedule.lua
-- Outcome: s succeeded, f failed for good, r another attempt, d disregarded, k dead.
-- returns per lease 1, or 0 when the token is stale and nothing was changed, and how many links were new;
-- then the figures
local CALENDARISH = {
  'calendar', 'year', 'month', 'day', 'date', 'viewcal', '%D19%d%d%D', '%D20%d%d%D', 'event', 'yr=',
  'calendrier', 'jour',
}  -- as Heritrix has it
local ZERO, WAG, ANTI_CALENDAR = 1, 3, 4  -- as numbered in crawlproj/knobs.py; 2 is unit

local function cost_of(h, entry)
  local policy = knob(h, 'cost_policy')
  if policy == ZERO then
    return 0
  elseif policy == WAG then
    local url, extra = entry:match('^[^\n]*'), entry:match('\n(.*)')
    local same_path = extra and extra:find('"v":1', 1, true)
    return 1 + (url:find('?', 1, true) and 1 or 0) + (same_path and 1 or 0)
  elseif policy == ANTI_CALENDAR then
    local url = entry:match('^[^\n]*'):lower()
    for _, word in ipairs(CALENDARISH) do
      if url:find(word) then
        return 2
      end
    end
  end
  return 1
end

-- Heritrix's politeness, from the end of the fetch: as long as that took times a factor, within bounds;
-- and the time in which so many bytes may travel. Each partition has its share of what all may have together.
local function time_anew(h, duration, bytes)
  if duration >= 0 then
    local delay = math.min(knob(h, 'delay_factor') * duration, knob(h, 'max_delay_ms'))
    h.nd = math.max(h.nd, math.floor(now + math.max(delay, knob(h, 'min_delay_ms'))))
  end
  local rate = knob(h, 'host_bandwidth_kb')
  if rate > 0 and bytes > 0 then
    h.nd = math.max(h.nd, math.floor(now + bytes / (rate * 1.024)))
  end
  if ctl.total_bandwidth_kb > 0 and bytes > 0 then
    local free = math.max(now, ctr.wire_free or 0)
    ctr.wire_free, counted = free + bytes * ctl.partitions / (ctl.total_bandwidth_kb * 1.024), true
  end
end

local function finish(lease, i, last)
  local outcome = ARGV[i + 1]
  local asked, incident, jitter = tonumber(ARGV[i + 2]), ARGV[i + 3] == '1', ARGV[i + 4] / 1000
  local h = lease.h
  if incident then
    back_off(h, asked, jitter, lease.at)
  end
  time_anew(h, tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]))
  count('bytes', tonumber(ARGV[i + 6]))
  if outcome == 's' then
    if h.more then
      h.more.bo = 0
    end
    h.sp = h.sp + cost_of(h, lease.entry)
    count('succeeded', 1)
  elseif outcome == 'f' then
    h.sp = h.sp + cost_of(h, lease.entry) + knob(h, 'error_penalty')
    local m = more_of(h)
    m.er = m.er + 1
    count('failed', 1)
  elseif outcome == 'd' then
    count('disregarded', 1)
  elseif outcome == 'k' then
    bury(lease.host, lease.entry, 'unreadable', lease.attempts)
  elseif outcome == 'r' then
    local item = item_of(lease.entry, lease.attempts + 1, lease.kills, 1)
    count('retried', 1)
    if incident then
      push(lease.host, { item }, lease.priority, true, 0)
    else
      local wait = asked > 0 and asked or retry_wait(h, lease.attempts, jitter)
      redis.call('ZADD', P .. 'delayed', digits(now + math.min(wait, knob(h, 'retry_delay_max_ms'))),
        cmsgpack.pack({ ARGV[i], lease.host, lease.priority, item }))
      count('queued', 1)
    end
  end
  local links = i + 9 + ARGV[i + 7]
  for n = i + 9, links - 1 do
    count('results', redis.call('SADD', P .. 'r:' .. shard(ARGV[n]), ARGV[n]))
  end
  return admit(links, last)
end

local tokens, i = {}, 1
while i <= #ARGV do
  tokens[#tokens + 1] = ARGV[i]
  i = i + 9 + ARGV[i + 7] + 5 * ARGV[i + 8]
end
local leases, answers = take_leases(tokens), {}
ask_whether_queued(touched)
i = 1
while i <= #ARGV do
  local after = i + 9 + ARGV[i + 7] + 5 * ARGV[i + 8]
  local lease = leases[ARGV[i]]
  leases[ARGV[i]] = nil  -- whoever reports it twice is late
  if lease then
    answers[#answers + 1] = 1
    answers[#answers + 1] = finish(lease, i, after - 1)
  else
    count('late', 1)
    append(answers, 0, 0)
  end
  i = after
end
answers[#answers + 1] = settle()
return answers
