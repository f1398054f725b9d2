-- The pages of a run that wait for another attempt, those that have waited longest first.
-- crawl_id    bigint
-- crawl_name  text
SELECT url, depth, request, attempts
  FROM page
 WHERE crawl_name = %(crawl_name)s AND crawl_id = %(crawl_id)s AND schedule_status = 'retry'
 ORDER BY reported_at, url_key
