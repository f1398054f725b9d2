-- The run whose frontier has this id.
-- frontier  text
-- returns id
SELECT id FROM crawl WHERE frontier = %(frontier)s
