-- The frontiers of sealed runs, the latest first; their keys in Redis should be gone.
-- limit  bigint  null for all
SELECT frontier
  FROM crawl
 WHERE status = 'sealed'
 ORDER BY finished_at DESC NULLS LAST, id DESC
 LIMIT %(limit)s
