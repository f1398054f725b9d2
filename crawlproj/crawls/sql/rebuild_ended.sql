-- The pages of a run that have come to an end: what its seen filter knows, and which of them are results.
-- crawl_id  bigint
SELECT host, canonical_url, request, schedule_status <> 'disregarded' AND redirect_to IS NULL AS is_result
  FROM page
 WHERE crawl_id = %(crawl_id)s AND schedule_status <> 'retry'
