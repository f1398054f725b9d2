-- One run.
-- crawl_id  bigint
SELECT * FROM crawl WHERE id = %(crawl_id)s
