-- The notes of a run, the oldest first.
-- crawl_id  bigint
SELECT time, namespace, message, fields
  FROM note
 WHERE crawl_id = %(crawl_id)s
 ORDER BY id
