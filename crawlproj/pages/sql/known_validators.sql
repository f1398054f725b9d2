-- The validators of what is stored as content of some pages of a crawl. Those of an empty page are never
-- sent: whether it is filled now must be seen. Nor are those of a page whose run kept no links: after a 304
-- nobody would know where it leads.
-- crawl_name text, keys bytea[]  ->  url_key, etag, last_modified
SELECT p.url_key,
       CASE WHEN o.fetch_status = 'empty' OR c.config -> 'recovery_log' = 'false' THEN NULL ELSE p.etag END,
       CASE WHEN o.fetch_status = 'empty' OR c.config -> 'recovery_log' = 'false' THEN NULL ELSE p.last_modified END
  FROM page AS p
  JOIN page_object AS o ON o.object_id = p.content_id
  LEFT JOIN crawl AS c ON c.id = o.crawl_id
 WHERE p.crawl_name = %(crawl_name)s
   AND p.url_key = ANY(%(keys)s::bytea[])
