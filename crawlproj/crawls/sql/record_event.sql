-- Writes an event down, the first time.
-- crawl_id, epoch  bigint
-- worker, kind     text
-- fields           jsonb
-- returns one row the first time, none after, nor for a run that is gone
INSERT INTO event (crawl_id, worker, epoch, kind, fields)
SELECT id, %(worker)s, %(epoch)s, %(kind)s, %(fields)s
  FROM crawl
 WHERE id = %(crawl_id)s
    ON CONFLICT DO NOTHING
RETURNING kind
