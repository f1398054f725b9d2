-- Every content that one page has had, the last one first, without its text and links.
-- crawl_name  text
-- url_key     bytea
SELECT encode(o.object_id, 'hex') AS object_id, c.run, o.fetched_at, o.url, o.fetch_status, o.http_status,
       encode(o.body_hash, 'hex') AS body_hash, o.body_size, o.content_type, o.encoding, o.title, o.language,
       o.text_length, o.raw_text_length, o.health_signal, o.headers, o.etag, o.last_modified
  FROM page_object AS o
  LEFT JOIN crawl AS c ON c.id = o.crawl_id
 WHERE o.crawl_name = %(crawl_name)s AND o.url_key = %(url_key)s
 ORDER BY o.fetched_at DESC, o.object_id
