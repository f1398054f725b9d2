-- A new run, queued and due. If the run before has kept what a limit left in its frontier, the new one takes that
-- frontier over and goes on where it stopped. No row comes back when somebody else was faster: look again, or
-- take another name.
-- name, spider, frontier  text     the frontier is that of the new run, or else what the old one is left with
-- config                  jsonb
-- first                   boolean  only as the first run of its name
WITH last AS (
    SELECT id, frontier
      FROM crawl
     WHERE name = %(name)s AND NOT %(first)s
     ORDER BY run DESC
     LIMIT 1
), handed_on AS (
    UPDATE crawl
       SET frontier = %(frontier)s, kept = false
      FROM last
     WHERE crawl.id = last.id AND crawl.kept AND crawl.status = 'sealed' AND crawl.spider = %(spider)s
    RETURNING last.frontier
)
INSERT INTO crawl (name, run, spider, frontier, continues, config)
SELECT %(name)s,
       CASE WHEN %(first)s THEN 1 ELSE coalesce(max(run), 0) + 1 END,
       %(spider)s,
       coalesce((SELECT frontier FROM handed_on), %(frontier)s),
       EXISTS (SELECT FROM handed_on),
       %(config)s
  FROM crawl
 WHERE name = %(name)s
    ON CONFLICT DO NOTHING
RETURNING id
