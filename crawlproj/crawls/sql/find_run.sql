-- One run of a name.
-- name  text
-- run   int
SELECT * FROM crawl WHERE name = %(name)s AND run = %(run)s
