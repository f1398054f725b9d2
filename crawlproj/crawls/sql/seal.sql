-- Ends a run: queued, started → sealed, and paused too when a person does it. Its row is locked before
-- (lock.sql). The counts by status are added to those given, because a later run takes the pages over.
-- crawl_id     bigint
-- stop_reason  text
-- counts       jsonb
-- kept         boolean  URLs are left in its frontier for the next run
-- states       text[]  it may be in
-- returns one row; none when it is in another state
WITH figures AS (
    SELECT fetch_status, schedule_status, count(*) AS pages
      FROM page
     WHERE crawl_id = %(crawl_id)s
     GROUP BY fetch_status, schedule_status
)
UPDATE crawl
   SET status      = 'sealed',
       retry_at    = NULL,
       modified_at = now(),
       finished_at = now(),
       stop_reason = %(stop_reason)s,
       kept        = %(kept)s,
       counts      = %(counts)s::jsonb || jsonb_build_object(
           'fetch_status', (SELECT coalesce(jsonb_object_agg(fetch_status, pages), '{}')
                              FROM (SELECT fetch_status, sum(pages) AS pages FROM figures
                                     WHERE fetch_status IS NOT NULL GROUP BY fetch_status) AS f),
           'schedule_status', (SELECT coalesce(jsonb_object_agg(schedule_status, pages), '{}')
                                 FROM (SELECT schedule_status, sum(pages) AS pages FROM figures
                                        GROUP BY schedule_status) AS s))
 WHERE id = %(crawl_id)s AND status = ANY (%(states)s::text[])
RETURNING id
