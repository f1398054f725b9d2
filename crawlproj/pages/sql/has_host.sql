-- Whether any run of a crawl has a page of a host.
-- crawl_name, host  text
-- returns one row, or none
SELECT crawl_id FROM page
 WHERE crawl_id IN (SELECT id FROM crawl WHERE name = %(crawl_name)s) AND host = %(host)s
 LIMIT 1
