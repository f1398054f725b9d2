-- Makes a run due when nobody is on it any more: at once, or when the last lease that is left runs out.
-- crawl_id  bigint
UPDATE crawl
   SET modified_at = now(),
       retry_at    = coalesce((SELECT max(expires_at) FROM worker_lease
                                WHERE crawl_id = crawl.id AND expires_at > now()), now())
 WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
