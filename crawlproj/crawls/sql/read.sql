-- A run as it is now.
-- crawl_id  bigint
-- epoch     bigint  handed through
SELECT *, %(epoch)s::bigint AS epoch FROM crawl WHERE id = %(crawl_id)s
