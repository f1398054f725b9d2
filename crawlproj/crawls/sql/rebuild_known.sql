-- When pages of a run were reported last; null for those that wait for another attempt.
-- crawl_id    bigint
-- crawl_name  text
-- keys        bytea[]
SELECT url_key, CASE WHEN schedule_status <> 'retry' THEN reported_at END AS reported_at
  FROM page
 WHERE crawl_name = %(crawl_name)s AND crawl_id = %(crawl_id)s AND url_key = ANY (%(keys)s)
