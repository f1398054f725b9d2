-- The run that a person means: by name its latest run, by number that run, by nothing the latest of all.
-- A name goes before a number, because people choose names.
-- name  text    null for the latest
-- id    bigint  null when the name is no number
SELECT *
  FROM crawl
 WHERE (%(name)s::text IS NULL OR name = %(name)s OR id = %(id)s)
 ORDER BY name = %(name)s DESC, id DESC
 LIMIT 1
