-- A worker has joined a run or begun to lease: queued, started → started, for as long as its lease is. The
-- run's row is locked before (lock.sql).
-- crawl_id, epoch  bigint
-- worker, phase    text
-- lease_seconds    float8
-- returns one row; none when the run is paused or sealed, or the lease is gone or another's
WITH lease AS (
    UPDATE worker_lease
       SET phase = %(phase)s, expires_at = now() + make_interval(secs => %(lease_seconds)s)
     WHERE crawl_id = %(crawl_id)s AND worker = %(worker)s AND epoch = %(epoch)s
       AND EXISTS (SELECT FROM crawl WHERE id = %(crawl_id)s AND status IN ('queued', 'started'))
    RETURNING expires_at
)
UPDATE crawl
   SET status      = 'started',
       started_at  = coalesce(started_at, now()),
       modified_at = now(),
       retry_at    = greatest((SELECT max(expires_at) FROM worker_lease WHERE crawl_id = crawl.id), lease.expires_at)
  FROM lease
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
RETURNING id
