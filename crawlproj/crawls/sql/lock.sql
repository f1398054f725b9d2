-- Holds a run's row until the transaction ends. A statement after this one sees all that was committed
-- before the lock was granted; the locking statement itself would not.
-- crawl_id  bigint
SELECT id FROM crawl WHERE id = %(crawl_id)s FOR UPDATE
