-- Who works on a run, without those whose lease has run out.
-- crawl_id  bigint
SELECT worker, phase, claimed_at, expires_at
  FROM worker_lease
 WHERE crawl_id = %(crawl_id)s AND expires_at > now()
 ORDER BY claimed_at, worker
