-- Notes a worker's pace beside its lease. It is no heartbeat: the lease is as long as it was.
-- crawl_id, epoch  bigint
-- worker           text
-- pace             jsonb
UPDATE worker_lease
   SET pace = %(pace)s, paced_at = now()
 WHERE crawl_id = %(crawl_id)s AND worker = %(worker)s AND epoch = %(epoch)s
