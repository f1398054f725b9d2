-- Whether the log of a run's fetches is there: old days of it may have been dropped.
-- crawl_id  bigint
-- returns one row, or none
SELECT at FROM "fetch" WHERE crawl_id = %(crawl_id)s LIMIT 1
