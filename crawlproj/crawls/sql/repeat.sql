-- Makes a run that was just created, and is queued, the next one of a series: what it does and what it is called
-- by are those of the run before, and it is due at the next time that lies ahead, however many have been missed
-- meanwhile.
-- crawl_id  bigint       the run before
-- next_id   bigint       the new one
-- at        timestamptz  what counts as now; null for now
-- returns its id; no row when it is in another state
UPDATE crawl AS next
   SET config         = last.config,
       label          = last.label,
       tags           = last.tags,
       repeat_seconds = last.repeat_seconds,
       scheduled_at   = slot.at,
       retry_at       = slot.at
  FROM crawl AS last,
       LATERAL (SELECT coalesce(%(at)s::timestamptz, now()) AS now) AS clock,
       LATERAL (SELECT last.scheduled_at + make_interval(secs => last.repeat_seconds * greatest(
                           0, floor(extract(epoch FROM clock.now - last.scheduled_at) / last.repeat_seconds) + 1
                       )) AS at) AS slot
 WHERE next.id = %(next_id)s AND next.status = 'queued' AND last.id = %(crawl_id)s
RETURNING next.id
