-- Pages whose key, or one of whose objects, has an id in a range; the one touched last first.
-- low, high   bytea  both included
-- crawl_name  text   null for every name
-- limit       bigint
SELECT p.crawl_name, c.run, p.crawl_id, encode(p.url_key, 'hex') AS id, p.url, p.canonical_url, p.host,
       p.depth, p.source_tag, p.fetch_status, p.schedule_status, p.http_status, p.reason, p.detail,
       p.attempts, p.reported_at, p.fetched_at, encode(p.object_id, 'hex') AS object_id,
       encode(p.content_id, 'hex') AS content_id, p.content_status, p.health_signal, p.etag,
       p.last_modified, p.next_fetch_at, p.redirect_to
  FROM (-- One look into the primary key per name: it begins with the name.
        SELECT n.name AS crawl_name, p.url_key
          FROM (SELECT DISTINCT name FROM crawl) AS n
          JOIN page AS p ON p.crawl_name = n.name AND p.url_key BETWEEN %(low)s AND %(high)s
         UNION
        SELECT crawl_name, url_key FROM page_object WHERE object_id BETWEEN %(low)s AND %(high)s
       ) AS found
  JOIN page AS p USING (crawl_name, url_key)
  LEFT JOIN crawl AS c ON c.id = p.crawl_id
 WHERE %(crawl_name)s::text IS NULL OR p.crawl_name = %(crawl_name)s
 ORDER BY p.reported_at DESC, p.crawl_name, p.url_key
 LIMIT %(limit)s
