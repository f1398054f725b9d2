-- Gives a run that was just made its label, its tags and its time.
-- crawl_id        bigint
-- label           text         null for none
-- tags            text[]
-- repeat_seconds  bigint       null: its next run is nobody's
-- at              timestamptz  when it is due; null for now
UPDATE crawl
   SET label          = %(label)s,
       tags           = %(tags)s::text[],
       repeat_seconds = %(repeat_seconds)s,
       scheduled_at   = coalesce(%(at)s::timestamptz, now()),
       retry_at       = coalesce(%(at)s::timestamptz, now())
 WHERE id = %(crawl_id)s AND status = 'queued'
