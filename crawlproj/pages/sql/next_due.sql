-- When the first of the pages that a run has left to later ones is due; see known_pages.sql. Reads the rows of
-- all pages of the crawl: for a run in which there was nothing to do.
-- crawl_name  text
-- crawl_id    bigint
-- most        float8   seconds after a visit from which on any page is due
-- returns next_due, null when no earlier run knows a page
SELECT min(next_fetch_at - make_interval(secs => greatest(0, revisit_seconds - %(most)s))) AS next_due
  FROM page
 WHERE crawl_name = %(crawl_name)s AND crawl_id < %(crawl_id)s AND next_fetch_at IS NOT NULL
