-- Takes workers off whose lease has run out. Their runs are due by then: a run is as soon as the last
-- of its leases ends. A lease that is renewed at this moment is skipped.
-- returns crawl_id, worker
DELETE FROM worker_lease
 WHERE (crawl_id, worker) IN (SELECT crawl_id, worker
                                FROM worker_lease
                               WHERE expires_at < now()
                               ORDER BY crawl_id, worker
                                 FOR UPDATE SKIP LOCKED)
RETURNING crawl_id, worker
