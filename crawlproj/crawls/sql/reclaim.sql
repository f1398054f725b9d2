-- Takes workers off whose lease has run out, with a note on each. Their runs are due by then: a run is as soon
-- as the last of its leases ends. A lease that is renewed at this moment is skipped.
-- returns crawl_id, worker
WITH lost AS (
    DELETE FROM worker_lease
     WHERE (crawl_id, worker) IN (SELECT crawl_id, worker
                                    FROM worker_lease
                                   WHERE expires_at < now()
                                   ORDER BY crawl_id, worker
                                     FOR UPDATE SKIP LOCKED)
    RETURNING crawl_id, worker, phase, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
), noted AS (
    INSERT INTO note (crawl_id, namespace, message, fields)
    SELECT crawl_id,
           'WORKER_LOST',
           'worker ' || worker || ' is lost: its lease ran out at ' || since || ' (phase ' || phase || ')',
           jsonb_build_object('worker', worker, 'phase', phase, 'lost_since', since)
      FROM lost
)
SELECT crawl_id, worker FROM lost
