-- The runs that wait for a worker, the one that waits longest first.
-- returns the runs
SELECT *, 0 AS epoch
  FROM crawl
 WHERE status IN ('queued', 'started') AND retry_at <= now()
 ORDER BY retry_at, id
