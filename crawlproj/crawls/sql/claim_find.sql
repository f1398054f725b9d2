-- The open run of a name, locked, so that nobody seals or pauses it before it is claimed.
-- name  text
-- returns id, spider, status, config, started_at; no row when every run of that name is sealed
SELECT id, spider, status, config, started_at
  FROM crawl
 WHERE name = %(name)s AND status <> 'sealed'
   FOR NO KEY UPDATE
