-- The run that has waited longest for a worker, held back for a while: whoever takes it starts one meanwhile,
-- and nobody else takes it. Runs that need what is not kept with them are left to people.
-- hold_seconds  float8
-- name          text         only a run of this crawl; null for any
-- at            timestamptz  what counts as now; null for now
-- returns id, name, run, spider, held_until; no row when nothing is due
UPDATE crawl
   SET retry_at    = coalesce(%(at)s::timestamptz, now()) + make_interval(secs => %(hold_seconds)s),
       modified_at = now()
 WHERE id = (SELECT id
               FROM crawl
              WHERE status IN ('queued', 'started') AND retry_at <= coalesce(%(at)s::timestamptz, now())
                AND (%(name)s::text IS NULL OR name = %(name)s)
                AND jsonb_array_length(coalesce(config -> 'redacted', '[]')) = 0
              ORDER BY retry_at, id
              LIMIT 1
                FOR UPDATE SKIP LOCKED)
   AND status IN ('queued', 'started')
RETURNING id, name, run, spider, retry_at AS held_until
