-- A worker fetches no more: its run stays started, and is due at once unless others are at it. The run's row
-- is locked before (lock.sql).
-- crawl_id, epoch  bigint
-- worker, phase    text
-- lease_seconds    float8  the lease goes on meanwhile
-- returns one row; none when the run is paused or sealed, or the lease is gone or another's
WITH lease AS (
    UPDATE worker_lease
       SET phase = %(phase)s, expires_at = now() + make_interval(secs => %(lease_seconds)s)
     WHERE crawl_id = %(crawl_id)s AND worker = %(worker)s AND epoch = %(epoch)s
       AND EXISTS (SELECT FROM crawl WHERE id = %(crawl_id)s AND status IN ('queued', 'started'))
    RETURNING worker
)
UPDATE crawl
   SET status      = 'started',
       modified_at = now(),
       retry_at    = coalesce((SELECT max(expires_at)
                                 FROM worker_lease AS other
                                WHERE other.crawl_id = crawl.id AND other.worker <> lease.worker
                                  AND other.phase <> 'cleanup' AND other.expires_at > now()), now())
  FROM lease
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
RETURNING id
