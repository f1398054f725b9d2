-- The last note of a kind on a run.
-- crawl_id   bigint
-- namespace  text
SELECT time, message, fields
  FROM note
 WHERE crawl_id = %(crawl_id)s AND namespace = %(namespace)s
 ORDER BY id DESC
 LIMIT 1
