-- Puts a worker on an open run: queued, started → started.
-- crawl_id       bigint
-- worker         text
-- lease_seconds  float8
-- returns the run, with the epoch of this worker's stint; no row when the run is paused or sealed
WITH taken AS (
    UPDATE crawl
       SET status      = 'started',
           started_at  = coalesce(started_at, now()),
           modified_at = now(),
           epochs      = epochs + 1,
           retry_at    = greatest((SELECT max(expires_at) FROM worker_lease WHERE crawl_id = crawl.id),
                                  now() + make_interval(secs => %(lease_seconds)s))
     WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
    RETURNING *
), lease AS (
    INSERT INTO worker_lease (crawl_id, worker, epoch, expires_at)
    SELECT id, %(worker)s, epochs, now() + make_interval(secs => %(lease_seconds)s)
      FROM taken
        ON CONFLICT (crawl_id, worker) DO UPDATE
       SET epoch = EXCLUDED.epoch, phase = 'setup', claimed_at = now(), expires_at = EXCLUDED.expires_at
)
SELECT *, epochs AS epoch FROM taken
