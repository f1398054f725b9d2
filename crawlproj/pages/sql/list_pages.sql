-- Pages as they are now, in the order in which they were last reported.
-- crawl_name  text    null for every name
-- crawl_id    bigint  only those that this run was the last to touch; null for all
-- status      text    fetch_status or schedule_status; null for all
-- host        text    null for all
-- limit       bigint  null for all
SELECT url, canonical_url, host, depth, source_tag, fetch_status, schedule_status, http_status, reason,
       detail, attempts, reported_at, fetched_at, encode(object_id, 'hex') AS object_id,
       encode(content_id, 'hex') AS content_id, health_signal, redirect_to
  FROM page
 WHERE (%(crawl_name)s::text IS NULL OR crawl_name = %(crawl_name)s)
   AND (%(crawl_id)s::bigint IS NULL OR crawl_id = %(crawl_id)s)
   AND (%(status)s::text IS NULL OR fetch_status = %(status)s OR schedule_status = %(status)s)
   AND (%(host)s::text IS NULL OR host = %(host)s)
 ORDER BY reported_at, url_key
 LIMIT %(limit)s
