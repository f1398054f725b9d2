-- Every attempt at one page, over all runs of its name, the first one first.
-- crawl_name  text
-- url_key     bytea
SELECT c.run, f.at, f.worker, f.attempt, f.fetch_status, f.schedule_status, f.http_status, f.reason,
       f.duration_ms, f.bytes, encode(f.object_id, 'hex') AS object_id
  FROM crawl AS c
  JOIN "fetch" AS f ON f.crawl_id = c.id AND f.url_key = %(url_key)s
 WHERE c.name = %(crawl_name)s
 ORDER BY f.at, f.attempt
