-- Extends a worker's lease, and with it the time until the run is due for another worker. A worker stays on
-- a paused run, whose row does not change, nor does it for a worker that only clears up. A run that was resumed
-- while the lease had run out is started again by it. The run's row is locked first, as everywhere.
-- crawl_id, epoch  bigint
-- worker           text
-- lease_seconds    float8
-- returns the status of the run; no row when the lease is gone or another's, or the run is sealed
WITH open AS (
    UPDATE crawl
       SET status      = CASE WHEN status = 'queued' AND lease.phase <> 'cleanup' THEN 'started' ELSE status END,
           modified_at = CASE WHEN status = 'paused' THEN modified_at ELSE now() END,
           retry_at    = CASE WHEN status = 'paused' OR lease.phase = 'cleanup' THEN retry_at
                              ELSE greatest((SELECT max(expires_at) FROM worker_lease WHERE crawl_id = crawl.id),
                                            now() + make_interval(secs => %(lease_seconds)s)) END
      FROM worker_lease AS lease
     WHERE id = %(crawl_id)s AND status <> 'sealed'
       AND lease.crawl_id = crawl.id AND lease.worker = %(worker)s AND lease.epoch = %(epoch)s
    RETURNING id, status
)
UPDATE worker_lease
   SET expires_at = now() + make_interval(secs => %(lease_seconds)s)
  FROM open
 WHERE crawl_id = open.id AND worker = %(worker)s AND epoch = %(epoch)s
RETURNING open.status
