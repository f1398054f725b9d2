-- Lets one session at a time write notes on the hosts of a run, until its transaction ends. The statement
-- after this one sees what the others have written.
-- class     int
-- crawl_id  bigint
SELECT pg_advisory_xact_lock(%(class)s, (%(crawl_id)s %% 2147483647)::int)
