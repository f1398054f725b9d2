-- The hosts of a run as the pages tell it, for a run whose frontier is gone: nothing is left to do
-- on any of them.
-- crawl_id  bigint
SELECT host, count(*) AS pages, count(*) FILTER (WHERE fetch_status = 'failed') AS errors
  FROM page
 WHERE crawl_id = %(crawl_id)s
 GROUP BY host
 ORDER BY host
