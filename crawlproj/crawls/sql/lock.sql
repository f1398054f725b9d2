-- Holds a run's row until the transaction ends. A statement after this one sees all that was committed
-- before the lock was granted; the locking statement itself would not.
-- It holds up no note or event: rows that only refer to the run do not change it, and whoever writes one may hold
-- a lease of it already.
-- crawl_id  bigint
SELECT id FROM crawl WHERE id = %(crawl_id)s FOR NO KEY UPDATE
