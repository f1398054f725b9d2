-- Lets a run go on: paused → queued, due at once.
-- crawl_id  bigint
-- returns one row; none when it is in another state
UPDATE crawl
   SET status = 'queued', retry_at = now(), modified_at = now()
 WHERE id = %(crawl_id)s AND status = 'paused'
RETURNING id
