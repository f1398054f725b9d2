-- What the workers of a run have said of their pace, those that have said something lately.
-- crawl_id  bigint
-- seconds   float8  how lately
SELECT worker, pace
  FROM worker_lease
 WHERE crawl_id = %(crawl_id)s AND expires_at > now() AND pace IS NOT NULL
   AND paced_at > now() - make_interval(secs => %(seconds)s)
 ORDER BY worker
