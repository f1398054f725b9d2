-- Stops a run until a person lets it go on: queued, started → paused.
-- crawl_id  bigint
-- returns one row; none when it is in another state
UPDATE crawl
   SET status = 'paused', retry_at = '9999-01-01 00:00:00+00', modified_at = now()
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
RETURNING id
