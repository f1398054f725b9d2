-- Whose next run is to be queued: a sealed run of a crawl that repeats.
-- crawl_id  bigint
-- returns name, spider; no row when there is nothing to repeat
SELECT name, spider
  FROM crawl
 WHERE id = %(crawl_id)s AND status = 'sealed' AND repeat_seconds IS NOT NULL
