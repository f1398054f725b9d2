-- What is stored as content of some pages of a crawl: its validators and its size. The validators of empty
-- content are not sent: whether it is filled now must be seen; what a page had before it was empty is its
-- content still. Nor are those of a page whose run kept no links:
-- after a 304 nobody would know where it leads. Nor those of a page with which the callback broke the last
-- time: after a 304 it would not be called.
-- crawl_name text, keys bytea[]  ->  url_key, etag, last_modified, body_size
SELECT p.url_key,
       CASE WHEN whole.needed THEN NULL ELSE p.etag END,
       CASE WHEN whole.needed THEN NULL ELSE p.last_modified END,
       o.body_size
  FROM page AS p
  JOIN page_object AS o ON o.object_id = p.content_id
  LEFT JOIN crawl AS c ON c.id = o.crawl_id
 CROSS JOIN LATERAL (SELECT o.fetch_status = 'empty' OR p.reason = 'callback_error'
                            OR c.config -> 'recovery_log' = 'false' AS needed) AS whole
 WHERE p.crawl_name = %(crawl_name)s
   AND p.url_key = ANY(%(keys)s::bytea[])
