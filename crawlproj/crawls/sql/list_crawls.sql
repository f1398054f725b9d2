-- Runs, the latest first, with what people ask of a list: figures, workers, the last note.
-- status  text[]  only these; null for all
-- tag     text    only those that have it, in lower case; null for all
-- limit   bigint  null for all
-- returns id, name, run, spider, status, retry_at, created_at, started_at, finished_at, stop_reason,
--         label, tags, counts (of a sealed run: what was written then; of an open one: counted now), workers, note
SELECT c.id, c.name, c.run, c.spider, c.status, c.retry_at, c.created_at, c.started_at, c.finished_at,
       c.stop_reason, c.label, c.tags, c.counts, coalesce(w.workers, 0) AS workers, n.message AS note
  FROM (SELECT *
          FROM crawl
         WHERE (%(status)s::text[] IS NULL OR status = ANY (%(status)s))
           AND (%(tag)s::text IS NULL OR tags @> ARRAY[%(tag)s])
         ORDER BY id DESC
         LIMIT %(limit)s) AS c
  LEFT JOIN LATERAL (SELECT count(*) AS workers
                       FROM worker_lease
                      WHERE crawl_id = c.id AND expires_at > now()) AS w ON true
  LEFT JOIN LATERAL (SELECT message
                       FROM note
                      WHERE crawl_id = c.id
                      ORDER BY id DESC
                      LIMIT 1) AS n ON true
 ORDER BY c.id DESC
