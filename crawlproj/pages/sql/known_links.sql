-- The packed links of what is stored as content of one page of a crawl.
-- crawl_name text, key bytea  ->  outlinks
SELECT o.outlinks
  FROM page AS p
  JOIN page_object AS o ON o.object_id = p.content_id
 WHERE p.crawl_name = %(crawl_name)s AND p.url_key = %(key)s
