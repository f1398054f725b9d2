-- Every run that is not sealed, and whether it has pages.
SELECT crawl.*, EXISTS (SELECT FROM page WHERE crawl_id = crawl.id) AS has_pages
  FROM crawl
 WHERE status <> 'sealed'
 ORDER BY id
