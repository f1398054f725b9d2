-- Notes that a worker has left a run for an error.
-- crawl_id               bigint
-- worker, reason, error  text
INSERT INTO note (crawl_id, namespace, message, fields)
SELECT %(crawl_id)s, 'WORKER_FAILED', concat_ws(': ', 'worker ' || %(worker)s || ' stops, ' || %(reason)s, nullif(%(error)s, '')),
       jsonb_build_object('worker', %(worker)s::text, 'reason', %(reason)s::text, 'error', %(error)s::text)
 WHERE EXISTS (SELECT FROM crawl WHERE id = %(crawl_id)s)
