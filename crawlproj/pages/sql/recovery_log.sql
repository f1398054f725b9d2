-- What a run knows of its URLs and of the links on them: enough to fill its frontier again.
-- crawl_id  bigint
-- returns the pages that the run has touched, each with the packed links of its last stored answer (after
-- a 304 that is the content that stands) and its own, when it stored none
SELECT p.url, p.canonical_url, p.url_key, p.host, p.depth, p.source_tag, p.fetch_status, p.schedule_status,
       p.attempts, p.redirect_to, p.outlinks AS own_links, o.outlinks
  FROM page AS p
  LEFT JOIN page_object AS o
         ON o.object_id = CASE WHEN p.fetch_status = 'not_modified' THEN p.content_id ELSE p.object_id END
 WHERE p.crawl_id = %(crawl_id)s
 ORDER BY p.reported_at, p.url_key
