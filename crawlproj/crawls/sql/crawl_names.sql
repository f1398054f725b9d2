-- The names there are, those used last first; for "did you mean".
SELECT name
  FROM crawl
 GROUP BY name
 ORDER BY max(id) DESC
 LIMIT 1000
