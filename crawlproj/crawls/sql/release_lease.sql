-- Takes a worker off a run, unless its lease has become that of another process.
-- crawl_id, epoch  bigint
-- worker           text
DELETE FROM worker_lease WHERE crawl_id = %(crawl_id)s AND worker = %(worker)s AND epoch = %(epoch)s
