-- What has become of the pages of a crawl between two of its runs: the state of each URL as of the one against
-- its state as of the other, whatever each run has visited.
--
-- The state as of a run is what the last visit up to it has found out: content (done, not_modified), an empty
-- page, or none any more (404, 410, redirected). Other failures and refusals say nothing of a page, so it
-- stays what it was. The content of a 304 is the last `done` one. Two contents are one if they are one page
-- object, whose id hashes the body. A body that counted as text at one time and as empty at the other, because
-- EMPTY_BELOW_CHARACTERS was another, is one object and yet emptied or filled.
-- crawl_name     text
-- before, after  int   numbers of the runs
-- returns a row for each page that is new, gone, changed or emptied, in this order and by URL, and one for
-- all that are unchanged, last: change, pages (how many), url, statuses, objects and lengths of their text
WITH log AS MATERIALIZED (
    SELECT c.run, f.url_key, f.at, f.attempt, f.fetch_status, f.http_status, f.object_id
      FROM crawl AS c
      JOIN "fetch" AS f ON f.crawl_id = c.id
     WHERE c.name = %(crawl_name)s AND c.run <= greatest(%(before)s, %(after)s)
       AND (f.fetch_status IN ('done', 'empty', 'not_modified')
            OR (f.schedule_status = 'failed' AND f.http_status IN (404, 410))
            OR (f.schedule_status = 'succeeded' AND f.fetch_status IS NULL))
), state AS (
    SELECT s.run AS as_of, l.url_key,
           (array_agg(l.fetch_status ORDER BY l.run DESC, l.at DESC, l.attempt DESC))[1] AS fetch_status,
           (array_agg(l.http_status ORDER BY l.run DESC, l.at DESC, l.attempt DESC))[1] AS http_status,
           (array_agg(l.object_id ORDER BY l.run DESC, l.at DESC, l.attempt DESC))[1] AS last_object,
           (array_agg(l.object_id ORDER BY l.run DESC, l.at DESC, l.attempt DESC)
                FILTER (WHERE l.fetch_status = 'done'))[1] AS done_object
      FROM (SELECT DISTINCT run FROM (VALUES (%(before)s::int), (%(after)s::int)) AS v (run)) AS s
      JOIN log AS l ON l.run <= s.run
     GROUP BY s.run, l.url_key
), page_state AS (
    SELECT as_of, url_key, fetch_status, http_status,
           CASE fetch_status WHEN 'not_modified' THEN done_object ELSE last_object END AS object_id,
           coalesce(fetch_status IN ('done', 'empty', 'not_modified'), false) AS is_there,
           fetch_status = 'empty' AS is_empty
      FROM state
), pair AS (
    SELECT url_key, b.fetch_status AS status_before, a.fetch_status AS status_after,
           a.http_status, b.object_id AS object_before, a.object_id AS object_after,
           CASE WHEN a.is_there AND b.is_there IS NOT TRUE THEN 'new'
                WHEN b.is_there AND a.is_there IS NOT TRUE THEN 'gone'
                WHEN b.is_there IS NOT TRUE THEN NULL  -- there at neither time
                WHEN a.is_empty AND NOT b.is_empty THEN 'emptied'
                WHEN a.is_empty = b.is_empty AND a.object_id IS NOT DISTINCT FROM b.object_id THEN 'unchanged'
                ELSE 'changed' END AS change
      FROM (SELECT * FROM page_state WHERE as_of = %(before)s) AS b
      FULL JOIN (SELECT * FROM page_state WHERE as_of = %(after)s) AS a USING (url_key)
)
SELECT *
  FROM (SELECT p.change, 1::bigint AS pages, page.url, p.status_before, p.status_after, p.http_status,
               encode(p.object_before, 'hex') AS object_before, encode(p.object_after, 'hex') AS object_after,
               ob.text_length AS text_before, oa.text_length AS text_after
          FROM pair AS p
          LEFT JOIN page ON page.crawl_name = %(crawl_name)s AND page.url_key = p.url_key
          LEFT JOIN page_object AS ob ON ob.object_id = p.object_before
          LEFT JOIN page_object AS oa ON oa.object_id = p.object_after
         WHERE p.change <> 'unchanged'
         UNION ALL
        SELECT 'unchanged', count(*), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
          FROM pair
         WHERE change = 'unchanged') AS d
 ORDER BY array_position(ARRAY['new', 'gone', 'changed', 'emptied', 'unchanged'], change), url COLLATE "C"
