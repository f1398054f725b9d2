-- How many targets a run has started: its pages, but a chain of redirects counts once. And the bytes that came.
-- crawl_id  bigint
SELECT (SELECT count(*) FROM page WHERE crawl_id = %(crawl_id)s)
     - (SELECT count(*)
          FROM page AS target
         WHERE crawl_id = %(crawl_id)s
           AND EXISTS (SELECT FROM page AS source  -- in WHERE, to be joined at once and not row by row
                        WHERE source.crawl_id = %(crawl_id)s AND source.redirect_to = target.url
                          AND source.url_key <> target.url_key)) AS targets,
       (SELECT coalesce(sum(bytes), 0)::bigint FROM "fetch" WHERE crawl_id = %(crawl_id)s) AS bytes
