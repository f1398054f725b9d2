-- The run that a person means: by name its latest run, by number that run, by nothing the latest of all. One that
-- waits for a later time has nothing to show yet, so the run before goes first.
-- A name goes before a number, because people choose names.
-- name     text     null for the latest
-- id       bigint   null when the name is no number
-- waiting  boolean  the latest, though it waits
SELECT *
  FROM crawl
 WHERE (%(name)s::text IS NULL OR name = %(name)s OR id = %(id)s)
 ORDER BY name = %(name)s DESC, status = 'queued' AND scheduled_at > now() AND NOT %(waiting)s, id DESC
 LIMIT 1
