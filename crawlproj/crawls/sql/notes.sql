-- The notes of a run, the oldest first.
-- crawl_id  bigint
-- after     bigint  only those with a higher id; 0 for all
SELECT id, time, namespace, message, fields
  FROM note
 WHERE crawl_id = %(crawl_id)s AND id > %(after)s
 ORDER BY id
