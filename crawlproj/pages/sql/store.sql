-- Stores a batch of pages, no two of one URL, in one statement and so in one snapshot.
--
-- Every worker runs this same statement: rows are locked table by table, and within a table in the
-- order of its key, so two workers with the same URLs wait for each other and never deadlock.
--
-- crawl_name, crawl_id, worker, body_store: of the whole batch.
-- All others are arrays, one element per page, but item_*: one per item.
-- fetched_at: null when nothing was fetched.  content_status: done or empty, null without an object.
-- body: null when another place keeps it, and body_store is which.  items: how many the page has now, null to leave them alone.
-- etag, last_modified: of an object, or of a 304.
-- page_outlinks: links of a page without an object.  request: see schema/0002_recovery.sql.
-- learned: 1 if the visit has found out how the page is, else null; revisit_*: how intervals move, of the
-- whole batch, both by crawlproj/pages/revisit.py.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        %(url_key)b::bytea[], %(url)b::text[], %(canonical_url)b::text[], %(host)b::text[],
        %(depth)b::int4[], %(source_tag)b::text[],
        %(page_status)b::text[], %(fetch_status)b::text[], %(schedule_status)b::text[],
        %(http_status)b::int4[], %(reason)b::text[], %(detail)b::text[], %(attempts)b::int4[],
        %(reported_at)b::timestamptz[], %(fetched_at)b::timestamptz[],
        %(duration_ms)b::int4[], %(bytes)b::int8[], %(redirect_to)b::text[], %(health_signal)b::jsonb[],
        %(items)b::int4[], %(page_outlinks)b::bytea[], %(request)b::text[], %(learned)b::int4[],
        %(object_id)b::bytea[], %(content_status)b::text[], %(body_hash)b::bytea[], %(body_size)b::int8[],
        %(content_type)b::text[], %(encoding)b::text[], %(title)b::text[], %(language)b::text[],
        %(text_length)b::int4[], %(raw_text_length)b::int4[], %(headers)b::jsonb[],
        %(etag)b::text[], %(last_modified)b::text[], %(text)b::bytea[], %(outlinks)b::bytea[],
        %(body)b::bytea[]
    ) AS t (
        url_key, url, canonical_url, host,
        depth, source_tag,
        page_status, fetch_status, schedule_status,
        http_status, reason, detail, attempts,
        reported_at, fetched_at,
        duration_ms, bytes, redirect_to, health_signal,
        items, page_outlinks, request, learned,
        object_id, content_status, body_hash, body_size,
        content_type, encoding, title, language,
        text_length, raw_text_length, headers,
        etag, last_modified, text, outlinks,
        body
    )
), log AS (
    INSERT INTO "fetch" (at, crawl_id, url_key, worker, attempt, fetch_status, schedule_status,
                         http_status, reason, duration_ms, bytes, object_id)
    SELECT reported_at, %(crawl_id)b::int8, url_key, %(worker)b::text, attempts, fetch_status,
           schedule_status, http_status, reason, duration_ms, bytes, object_id
    FROM input
    ON CONFLICT DO NOTHING
), bodies AS (
    INSERT INTO body (body_hash, size, data, store)
    SELECT body_hash, body_size, body, %(body_store)b::text
    FROM input WHERE body_hash IS NOT NULL ORDER BY body_hash
    ON CONFLICT DO NOTHING
), objects AS (
    INSERT INTO page_object AS o (
        object_id, crawl_name, url_key, crawl_id, fetched_at, url, fetch_status, http_status,
        body_hash, body_size, content_type, encoding, title, language, text_length, raw_text_length,
        health_signal, headers, etag, last_modified, text, outlinks)
    SELECT object_id, %(crawl_name)b::text, url_key, %(crawl_id)b::int8, fetched_at, url, content_status,
           http_status, body_hash, body_size, content_type, encoding, title, language, text_length,
           raw_text_length, health_signal, headers, etag, last_modified, text, outlinks
    FROM input WHERE object_id IS NOT NULL ORDER BY object_id
    ON CONFLICT (object_id) DO UPDATE SET
        crawl_id = EXCLUDED.crawl_id, fetched_at = EXCLUDED.fetched_at, url = EXCLUDED.url,
        fetch_status = EXCLUDED.fetch_status, http_status = EXCLUDED.http_status,
        content_type = EXCLUDED.content_type, encoding = EXCLUDED.encoding,
        title = EXCLUDED.title, language = EXCLUDED.language,
        text_length = EXCLUDED.text_length, raw_text_length = EXCLUDED.raw_text_length,
        health_signal = EXCLUDED.health_signal, headers = EXCLUDED.headers,
        etag = EXCLUDED.etag, last_modified = EXCLUDED.last_modified, outlinks = EXCLUDED.outlinks,
        -- The same pointer again keeps the text where it is; another one would write it anew.
        text = CASE WHEN o.text = EXCLUDED.text THEN o.text ELSE EXCLUDED.text END
    WHERE (o.crawl_id, o.fetched_at) <= (EXCLUDED.crawl_id, EXCLUDED.fetched_at)
), old_items AS (
    -- A plan is kept for long, and begun on an empty table: this form leaves it no way but the index.
    DELETE FROM item
    WHERE ctid = ANY (ARRAY(
        SELECT old.ctid
        FROM input CROSS JOIN LATERAL (
            SELECT ctid FROM item
            WHERE crawl_id = %(crawl_id)b::int8 AND url_key = input.url_key AND n >= input.items
            OFFSET 0) AS old))
), new_items AS (
    INSERT INTO item (crawl_id, url_key, n, data)
    SELECT %(crawl_id)b::int8, url_key, n, data
    FROM unnest(%(item_key)b::bytea[], %(item_n)b::int4[], %(item_data)b::jsonb[]) AS t (url_key, n, data)
    ORDER BY url_key, n
    ON CONFLICT (crawl_id, url_key, n) DO UPDATE SET data = EXCLUDED.data, at = EXCLUDED.at
)
INSERT INTO page AS p (
    crawl_name, url_key, crawl_id, first_crawl_id, url, canonical_url, host, depth, source_tag,
    fetch_status, schedule_status, http_status, reason, detail, attempts, reported_at, fetched_at,
    health_signal, object_id, content_id, content_status, etag, last_modified, redirect_to, outlinks, request,
    revisit_seconds, next_fetch_at)
SELECT %(crawl_name)b::text, url_key, %(crawl_id)b::int8, %(crawl_id)b::int8, url, canonical_url, host,
       depth, source_tag, page_status, schedule_status, http_status, reason, detail, attempts, reported_at,
       fetched_at, health_signal, object_id, object_id, content_status, etag, last_modified, redirect_to,
       page_outlinks, request, learned * %(revisit_first)b::float8,
       now() + make_interval(secs => coalesce(learned * %(revisit_first)b::float8, 0))
FROM input ORDER BY url_key
ON CONFLICT (crawl_name, url_key) DO UPDATE SET
    crawl_id = EXCLUDED.crawl_id, url = EXCLUDED.url, canonical_url = EXCLUDED.canonical_url,
    host = EXCLUDED.host, depth = EXCLUDED.depth, source_tag = EXCLUDED.source_tag,
    fetch_status = EXCLUDED.fetch_status, schedule_status = EXCLUDED.schedule_status,
    http_status = EXCLUDED.http_status, reason = EXCLUDED.reason, detail = EXCLUDED.detail,
    attempts = EXCLUDED.attempts, reported_at = EXCLUDED.reported_at, fetched_at = EXCLUDED.fetched_at,
    health_signal = EXCLUDED.health_signal, redirect_to = EXCLUDED.redirect_to,
    object_id = EXCLUDED.object_id, request = EXCLUDED.request,
    outlinks = coalesce(EXCLUDED.outlinks, CASE WHEN p.crawl_id = EXCLUDED.crawl_id THEN p.outlinks END),
    (revisit_seconds, next_fetch_at) = (
        SELECT coalesce(seconds, p.revisit_seconds), now() + make_interval(secs => coalesce(seconds, 0))
        FROM (SELECT CASE
                  WHEN EXCLUDED.revisit_seconds IS NULL THEN NULL  -- nothing learned
                  WHEN p.revisit_seconds IS NULL THEN EXCLUDED.revisit_seconds
                  WHEN p.reported_at = EXCLUDED.reported_at THEN p.revisit_seconds  -- a repeated commit
                  WHEN p.revisit_seconds = 0 THEN EXCLUDED.revisit_seconds  -- no interval to start from
                  ELSE least(%(revisit_most)b::float8, greatest(%(revisit_least)b::float8, p.revisit_seconds
                       * CASE WHEN CASE
                                  WHEN EXCLUDED.object_id IS NOT NULL
                                  THEN EXCLUDED.object_id IS DISTINCT FROM coalesce(p.object_id, p.content_id)
                                  WHEN EXCLUDED.redirect_to IS NOT NULL
                                  THEN EXCLUDED.redirect_to IS DISTINCT FROM p.redirect_to
                                  ELSE false END  -- 304, gone
                              THEN %(revisit_shrinks)b::float8 ELSE %(revisit_grows)b::float8 END))
              END AS seconds) AS _),
    (content_id, content_status, etag, last_modified) = (
        SELECT CASE WHEN moves THEN EXCLUDED.content_id ELSE p.content_id END,
               CASE WHEN moves THEN EXCLUDED.content_status ELSE p.content_status END,
               -- Of a 304 that brings newer ones, these count from now on; of an empty answer never.
               CASE WHEN moves THEN EXCLUDED.etag
                    WHEN EXCLUDED.content_status IS NULL THEN coalesce(EXCLUDED.etag, p.etag)
                    ELSE p.etag END,
               CASE WHEN moves THEN EXCLUDED.last_modified
                    WHEN EXCLUDED.content_status IS NULL THEN coalesce(EXCLUDED.last_modified, p.last_modified)
                    ELSE p.last_modified END
        FROM (SELECT EXCLUDED.content_status = 'done'
                     OR (EXCLUDED.content_status = 'empty' AND p.content_status IS DISTINCT FROM 'done')
                     AS moves) AS _)
-- A report that comes late, from an earlier run or a worker that was taken for dead, changes nothing.
WHERE (p.crawl_id, p.reported_at) <= (EXCLUDED.crawl_id, EXCLUDED.reported_at)
