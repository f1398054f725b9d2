-- Writes a note. The note on an early stop is written once per run, by whoever is first.
-- crawl_id            bigint
-- namespace, message  text
-- fields              jsonb
-- returns one row when it was written
INSERT INTO note (crawl_id, namespace, message, fields)
VALUES (%(crawl_id)s, %(namespace)s, %(message)s, %(fields)s)
    ON CONFLICT (crawl_id) WHERE namespace = 'STOP_EARLY_REASON' DO NOTHING
RETURNING id
