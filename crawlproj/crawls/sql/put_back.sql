-- Makes a run due at once that was taken and got no worker.
-- crawl_id    bigint
-- held_until  timestamptz  as the take said: whoever has claimed or changed the run since has set another time
-- returns one row; none when that has happened
UPDATE crawl
   SET retry_at = now(), modified_at = now()
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started') AND retry_at = %(held_until)s
RETURNING id
