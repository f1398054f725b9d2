-- One host as an operator sees it.
-- KEYS[1] prefix   ARGV host
-- returns nothing if it is unknown, else: structure, queued, in flight, interval ms, whether that is its own,
-- ms until it is due, spent, budget, errors
local h = load(ARGV[1])
if h.st == '' then
  return {}
end
return {
  h.st, h.q, h.f, h.iv >= 0 and h.iv or ctl.interval_ms, h.iv >= 0 and 1 or 0,
  math.max(0, h.nd - now), h.sp, budget_of(h), h.er,
}
