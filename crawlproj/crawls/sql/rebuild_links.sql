-- Every link that a run has found, in the order in which its pages were reported: of the answers that it
-- stored, after a 304 of the content that stands, and of pages that stored nothing.
-- crawl_id    bigint
-- crawl_name  text
-- returns a page once for each of its contents; without any, once
SELECT p.url_key, p.url, p.canonical_url, p.depth, p.source_tag, p.reported_at,
       p.redirect_to IS NOT NULL AS redirected,
       p.outlinks AS own_links, o.outlinks AS object_links
  FROM page AS p
  LEFT JOIN page_object AS o
         ON o.crawl_name = p.crawl_name AND o.url_key = p.url_key
        AND (o.crawl_id = p.crawl_id OR (p.fetch_status = 'not_modified' AND o.object_id = p.content_id))
 WHERE p.crawl_name = %(crawl_name)s AND p.crawl_id = %(crawl_id)s
   AND (p.outlinks IS NOT NULL OR o.outlinks IS NOT NULL)
 ORDER BY p.reported_at, p.url_key
