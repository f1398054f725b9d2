-- How many pages of each run have which two statuses; the two are counted apart and never merged.
-- crawl_ids  bigint[]
SELECT crawl_id, fetch_status, schedule_status, count(*) AS pages
  FROM page
 WHERE crawl_id = ANY (%(crawl_ids)s)
 GROUP BY crawl_id, fetch_status, schedule_status
