-- Lets a run go on: paused → started when workers have stayed on it, else queued and due at once; one that
-- has not been started yet, not before its time.
-- crawl_id  bigint
-- returns one row; none when it is in another state
WITH staying AS (
    SELECT max(expires_at) AS until FROM worker_lease WHERE crawl_id = %(crawl_id)s AND expires_at > now()
)
UPDATE crawl
   SET status      = CASE WHEN until IS NULL THEN 'queued' ELSE 'started' END,
       retry_at    = coalesce(until, CASE WHEN started_at IS NULL THEN greatest(scheduled_at, now()) ELSE now() END),
       modified_at = now()
  FROM staying
 WHERE id = %(crawl_id)s AND status = 'paused'
RETURNING id
