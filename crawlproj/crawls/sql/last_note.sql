-- The last note on a run, of a kind or of any.
-- crawl_id   bigint
-- namespace  text  null for any
SELECT time, message, fields, namespace
  FROM note
 WHERE crawl_id = %(crawl_id)s AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s)
 ORDER BY id DESC
 LIMIT 1
