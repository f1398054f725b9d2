-- How long a run has been running, by the clock of the database.
-- crawl_id  bigint
-- returns seconds; null before its first claim
SELECT extract(epoch FROM coalesce(finished_at, now()) - started_at)::float8 FROM crawl WHERE id = %(crawl_id)s
