-- Makes a run due when nobody is on it any more: after a while, or when the last lease that is left runs out.
-- crawl_id      bigint
-- wait_seconds  float8  0: at once
UPDATE crawl
   SET modified_at = now(),
       retry_at    = coalesce((SELECT max(expires_at) FROM worker_lease
                                WHERE crawl_id = crawl.id AND expires_at > now()),
                              now() + make_interval(secs => %(wait_seconds)s))
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
