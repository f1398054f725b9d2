-- A new run, queued and due. No row comes back when somebody else was faster: look again, or take
-- another name.
-- name, spider, frontier  text
-- config                  jsonb
-- first                   boolean  only as the first run of its name
INSERT INTO crawl (name, run, spider, frontier, config)
SELECT %(name)s,
       CASE WHEN %(first)s THEN 1 ELSE coalesce(max(run), 0) + 1 END,
       %(spider)s, %(frontier)s, %(config)s
  FROM crawl
 WHERE name = %(name)s
    ON CONFLICT DO NOTHING
RETURNING id
