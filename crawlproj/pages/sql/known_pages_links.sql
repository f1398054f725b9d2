-- The links of pages that are not due in a run, if the run before it left something queued: what it left is
-- among them. See known_pages.sql; a run of which nobody knows what it left counts as one that left something.
-- crawl_name text, crawl_id bigint, most float8
-- returns what a page's links inherit from it, and the packed links of its content and its own
SELECT p.url, p.canonical_url, p.depth, p.source_tag, p.outlinks AS own_links, o.outlinks AS object_links
  FROM crawl AS run
  JOIN crawl AS before ON before.name = run.name AND before.run = run.run - 1
  JOIN page AS p
    ON p.crawl_name = %(crawl_name)s AND p.crawl_id < run.id AND p.next_fetch_at IS NOT NULL
  LEFT JOIN page_object AS o ON o.object_id = p.content_id
 WHERE run.id = %(crawl_id)s
   AND coalesce((before.counts ->> 'queued')::float8, 1) > 0
   AND p.next_fetch_at - make_interval(secs => greatest(0, p.revisit_seconds - %(most)s)) > run.started_at
   AND (p.outlinks IS NOT NULL OR o.outlinks IS NOT NULL)
 ORDER BY p.reported_at, p.url_key
