-- Whether a run has pages at all.
-- crawl_id  bigint
-- returns one row, or none
SELECT url FROM page WHERE crawl_id = %(crawl_id)s LIMIT 1
