-- What the items of a run count as, as results: their URL, or else their place on their page.
-- crawl_id    bigint
-- crawl_name  text
SELECT p.canonical_url, i.n, CASE WHEN jsonb_typeof(i.data -> 'url') = 'string' THEN i.data ->> 'url' END AS url
  FROM item AS i
  JOIN page AS p ON p.crawl_name = %(crawl_name)s AND p.url_key = i.url_key
 WHERE i.crawl_id = %(crawl_id)s
