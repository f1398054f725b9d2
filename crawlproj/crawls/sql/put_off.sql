-- Lets a run that is not sealed wait before the next worker is started for it, and notes why, unless a worker has
-- noted it itself. Workers that are on it are not in the way: their renewals say when it is due.
-- crawl_id         bigint
-- seconds          float8
-- message          text     null: there is nothing to note
-- fields           jsonb
-- within_seconds   float8   how long ago a worker's own note may be
-- returns one row; none when the run is paused or sealed
WITH waits AS (
    UPDATE crawl
       SET retry_at    = greatest(retry_at, now() + make_interval(secs => %(seconds)s)),
           modified_at = now()
     WHERE id = %(crawl_id)s AND status IN ('queued', 'started')
    RETURNING id
), noted AS (
    INSERT INTO note (crawl_id, namespace, message, fields)
    SELECT id, 'RUN_FAILED', %(message)s, %(fields)s
      FROM waits
     WHERE %(message)s::text IS NOT NULL
       AND NOT EXISTS (SELECT FROM note
                        WHERE note.crawl_id = waits.id AND namespace IN ('RUN_FAILED', 'WORKER_FAILED')
                          AND time > now() - make_interval(secs => %(within_seconds)s))
)
SELECT id FROM waits
