-- Pages that earlier runs of a crawl know: those that are due in a run, or those that are not, the ones that
-- were reported longest ago first. What the run has touched itself is neither. A page is due at the time that
-- its row says, but not later than the settings of now allow: then it is due by as much earlier as its interval
-- is too long. (Not that long after fetched_at, which a worker's clock has said.) Without such a time it was
-- stored before there were revisits, and comes by its links.
-- crawl_name  text
-- crawl_id    bigint   the run; what is due when it started is due in it
-- most        float8   seconds after a visit from which on any page is due
-- due         boolean
-- returns url, depth, request
SELECT p.url, p.depth, p.request
  FROM crawl AS run
  JOIN page AS p
    ON p.crawl_name = %(crawl_name)s AND p.crawl_id < run.id AND p.next_fetch_at IS NOT NULL
 WHERE run.id = %(crawl_id)s
   AND %(due)s = (p.next_fetch_at - make_interval(secs => greatest(0, p.revisit_seconds - %(most)s)) <= run.started_at)
 ORDER BY p.reported_at, p.url_key
