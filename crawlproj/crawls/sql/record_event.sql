-- Writes an event down, the first time, and moves the worker's lease on to its phase.
-- crawl_id, epoch  bigint
-- worker, kind     text
-- fields           jsonb
-- phase            text    null to leave it
-- returns one row the first time, none after
WITH moved AS (
    UPDATE worker_lease
       SET phase = %(phase)s
     WHERE crawl_id = %(crawl_id)s AND worker = %(worker)s AND epoch = %(epoch)s AND %(phase)s::text IS NOT NULL
)
INSERT INTO event (crawl_id, worker, epoch, kind, fields)
VALUES (%(crawl_id)s, %(worker)s, %(epoch)s, %(kind)s, %(fields)s)
    ON CONFLICT DO NOTHING
RETURNING kind
