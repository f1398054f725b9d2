-- The validators of what is stored as content of some pages of a crawl.
-- crawl_name text, keys bytea[]  ->  url_key, etag, last_modified
SELECT url_key, etag, last_modified
  FROM page
 WHERE crawl_name = %(crawl_name)s
   AND url_key = ANY(%(keys)s::bytea[])
   AND content_id IS NOT NULL
