-- The frontiers of sealed runs, the latest first; their keys in Redis should be gone. One that is kept for a next
-- run is none of them, unless that run was another spider's, which has not taken it over: then nobody will.
-- limit  bigint  null for all
SELECT frontier
  FROM crawl
 WHERE status = 'sealed'
   AND NOT (kept AND NOT EXISTS (SELECT FROM crawl AS later WHERE later.name = crawl.name AND later.run > crawl.run))
 ORDER BY finished_at DESC NULLS LAST, id DESC
 LIMIT %(limit)s
