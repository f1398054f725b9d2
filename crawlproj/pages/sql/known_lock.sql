-- Lets one worker at a time bring in what earlier runs know, until its transaction ends.
-- class     int
-- crawl_id  bigint
SELECT pg_try_advisory_xact_lock(%(class)s, (%(crawl_id)s %% 2147483647)::int) AS locked
