-- The run of a name that is not sealed; there is one at most.
-- name  text
SELECT * FROM crawl WHERE name = %(name)s AND status <> 'sealed'
