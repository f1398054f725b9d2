-- A page of a run that there is something to see of; the shortest of a few, because people type it.
-- crawl_id  bigint
SELECT url
  FROM (SELECT url
          FROM page
         WHERE crawl_id = %(crawl_id)s AND fetch_status IN ('done', 'not_modified')
         LIMIT 100) AS sample
 ORDER BY length(url), url
 LIMIT 1
