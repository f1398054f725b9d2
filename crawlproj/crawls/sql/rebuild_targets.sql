-- How many targets a run has started: its pages, but a chain of redirects counts once.
-- crawl_id  bigint
SELECT count(*) FILTER (WHERE NOT is_end) AS targets
  FROM (SELECT EXISTS (SELECT FROM page AS source
                        WHERE source.crawl_id = %(crawl_id)s AND source.redirect_to = page.url
                          AND source.url_key <> page.url_key) AS is_end
          FROM page
         WHERE crawl_id = %(crawl_id)s) AS pages
