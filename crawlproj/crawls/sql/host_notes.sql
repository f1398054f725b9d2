-- What has been noted of hosts in a run, and of one of them.
-- crawl_id  bigint
-- host      text
-- returns how many incidents of all hosts; of the host the last note that it is in trouble, how many seconds
-- ago that was, and the last one that it answers again, both by their ids; null where there is none
WITH notes AS (
    SELECT id, namespace, time, fields ->> 'host' = %(host)s AS is_of_host
      FROM note
     WHERE crawl_id = %(crawl_id)s AND namespace IN ('HOST_INCIDENT', 'HOST_RECOVERED')
)
SELECT count(*) FILTER (WHERE namespace = 'HOST_INCIDENT') AS incidents,
       max(id) FILTER (WHERE namespace = 'HOST_INCIDENT' AND is_of_host) AS trouble,
       extract(epoch FROM now() - max(time) FILTER (WHERE namespace = 'HOST_INCIDENT' AND is_of_host))::float8
           AS seconds,
       max(id) FILTER (WHERE namespace = 'HOST_RECOVERED' AND is_of_host) AS recovery
  FROM notes
