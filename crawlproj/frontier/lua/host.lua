-- Hosts as an operator sees them.
-- KEYS[1] prefix   ARGV hosts
-- returns per host nothing if it is unknown, else: structure, queued, in flight, interval ms, who says so
-- (nothing: the crawl), ms until it is due, spent, budget, errors, its own knobs as JSON, ms that it backs off
local views = {}
for i, host in ipairs(ARGV) do
  local h = load(host)
  local interval, source = interval_of(h)
  views[i] = h.st == '' and {} or {
    h.st, queued(h), h.f, interval, source or '', math.max(0, h.nd - now), h.sp, knob(h, 'total_budget'),
    h.more and h.more.er or 0, h.more and h.more.k and cjson.encode(h.more.k) or '{}',
    math.max(0, (h.more and h.more.bu or 0) - now),
  }
end
return views
