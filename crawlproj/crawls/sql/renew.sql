-- Extends a worker's lease, and with it the time until the run is due for another worker. The run's
-- row is locked first, as everywhere.
-- crawl_id, epoch  bigint
-- worker           text
-- lease_seconds    float8
-- returns one row; none when the lease is gone or another's, or the run is paused or sealed
WITH open AS (
    UPDATE crawl
       SET modified_at = now(),
           retry_at    = greatest((SELECT max(expires_at) FROM worker_lease WHERE crawl_id = crawl.id),
                                  now() + make_interval(secs => %(lease_seconds)s))
     WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
       AND EXISTS (SELECT FROM worker_lease
                    WHERE crawl_id = crawl.id AND worker = %(worker)s AND epoch = %(epoch)s)
    RETURNING id
)
UPDATE worker_lease
   SET expires_at = now() + make_interval(secs => %(lease_seconds)s)
  FROM open
 WHERE crawl_id = open.id AND worker = %(worker)s AND epoch = %(epoch)s
RETURNING expires_at
