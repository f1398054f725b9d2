-- Takes every worker off a sealed run; the next renewal tells each of them.
-- crawl_id  bigint
DELETE FROM worker_lease WHERE crawl_id = %(crawl_id)s
