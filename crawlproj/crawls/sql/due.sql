-- The runs that wait for a worker, the one that waits longest first.
-- at  timestamptz  what counts as now; null for now
-- returns the runs
SELECT *, 0 AS epoch
  FROM crawl
 WHERE status IN ('queued', 'started') AND retry_at <= coalesce(%(at)s::timestamptz, now())
 ORDER BY retry_at, id
