-- The frontiers of sealed runs, the latest first; their keys in Redis should be gone. Those that are kept for
-- a next run are none of them.
-- limit  bigint  null for all
SELECT frontier
  FROM crawl
 WHERE status = 'sealed' AND NOT kept
 ORDER BY finished_at DESC NULLS LAST, id DESC
 LIMIT %(limit)s
