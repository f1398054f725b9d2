-- Hosts as an operator sees them.
-- KEYS[1] prefix   ARGV hosts
-- returns per host nothing if it is unknown, else: structure, queued, in flight, interval ms, whether that is its
-- own, ms until it is due, spent, budget, errors, its own knobs as JSON
local views = {}
for i, host in ipairs(ARGV) do
  local h = load(host)
  local interval, own = interval_of(h)
  views[i] = h.st == '' and {} or {
    h.st, queued(h), h.f, interval, own and 1 or 0, math.max(0, h.nd - now), h.sp, knob(h, 'total_budget'),
    h.more and h.more.er or 0, h.more and h.more.k and cjson.encode(h.more.k) or '{}',
  }
end
return views
