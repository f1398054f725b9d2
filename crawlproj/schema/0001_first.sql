-- Everything the crawler keeps in PostgreSQL 14 to 18.
--
-- Rules for all tables: times are the database's own clock, unless a column says otherwise; the key of
-- a URL is a hash (16 bytes), because an index entry is limited to 2704 bytes and a URL is not; tables
-- that grow by the page have no foreign keys, because checking them costs more than the rest of the row.


-- crawl: one row per run of a named job; it outlives the processes that work on it.
--
--   queued ──► started ──► sealed
--      ▲  │       │ ▲         ▲
--      │  └───┬───┘ └ claim   │ cancel (from any but sealed), seal (from queued and started)
--      │      ▼ pause         │
--      └── paused ────────────┘
--        resume
--
-- retry_at: in the past, due for a worker; in the future, somebody works on it or it waits for that
-- time; 9999-01-01, paused; null, sealed and nothing left to do.
CREATE TABLE crawl (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text        NOT NULL,
    run         integer     NOT NULL,            -- 1, 2, … within the name; a later run revisits
    spider      text        NOT NULL,
    status      text        NOT NULL DEFAULT 'queued',
    retry_at    timestamptz          DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    modified_at timestamptz NOT NULL DEFAULT now(),
    started_at  timestamptz,                     -- first claim; running time counts from here
    finished_at timestamptz,                     -- when it was sealed
    stop_reason text,
    frontier    text        NOT NULL UNIQUE,     -- names its keys in Redis
    config      jsonb       NOT NULL DEFAULT '{}',  -- as it was asked for; secrets are redacted before
    counts      jsonb,                           -- last known figures, written when it is sealed
    epochs      bigint      NOT NULL DEFAULT 0,  -- claims so far; the next worker_lease gets the next one
    UNIQUE (name, run),
    CONSTRAINT crawl_status CHECK (status IN ('queued', 'started', 'paused', 'sealed')),
    CONSTRAINT crawl_runnable_has_retry_at CHECK (status NOT IN ('queued', 'started') OR retry_at IS NOT NULL),
    CONSTRAINT crawl_paused_is_never_due CHECK (
        status <> 'paused' OR retry_at IS NOT DISTINCT FROM '9999-01-01 00:00:00+00'::timestamptz)
);
CREATE UNIQUE INDEX crawl_one_open_run ON crawl (name) WHERE status <> 'sealed';
CREATE INDEX crawl_due ON crawl (retry_at, id) WHERE status IN ('queued', 'started');


-- worker_lease: which workers are on a crawl. A row that is not renewed runs out, and its worker is
-- taken for dead; the epoch tells two processes of one name, or two stints of one, apart.
--
--   (none) ──claim──► setup ──► running ──► cleanup ──release, seal or expiry──► (none)
CREATE TABLE worker_lease (
    crawl_id   bigint      NOT NULL REFERENCES crawl ON DELETE CASCADE,
    worker     text        NOT NULL,
    epoch      bigint      NOT NULL,
    phase      text        NOT NULL DEFAULT 'setup',
    claimed_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (crawl_id, worker)
);
CREATE INDEX worker_lease_expiry ON worker_lease (expires_at);


-- event: what happened to a crawl, once per worker, epoch and kind; a signal that is sent twice is one row.
CREATE TABLE event (
    crawl_id bigint      NOT NULL REFERENCES crawl ON DELETE CASCADE,
    worker   text        NOT NULL,
    epoch    bigint      NOT NULL,
    kind     text        NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    fields   jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (crawl_id, worker, epoch, kind)
);


-- note: what a person should know about a run. Why it stopped early is said once, by whoever is first.
CREATE TABLE note (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    crawl_id  bigint      NOT NULL REFERENCES crawl ON DELETE CASCADE,
    time      timestamptz NOT NULL DEFAULT now(),
    namespace text        NOT NULL,
    message   text        NOT NULL,
    fields    jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX note_of_crawl ON note (crawl_id, id);
CREATE UNIQUE INDEX note_stop_early_once ON note (crawl_id) WHERE namespace = 'STOP_EARLY_REASON';


-- page: the current state of one URL within one crawl name, over all its runs.
--
-- The two status columns are two enumerations and never merged:
--   fetch_status     null ──► done | not_modified | empty | failed      (the downloader's word)
--   schedule_status  retry ──► succeeded | failed | disregarded | dead  (the frontier's word)
--
-- object_id is what the last fetch stored, and null when it stored nothing. content_id is what stands
-- as this URL's content: the last `done` object, or the last `empty` one as long as there was no
-- `done`; a failure, a 304 or an empty answer never moves it away from a `done`.
CREATE TABLE page (
    crawl_name      text        NOT NULL,
    url_key         bytea       NOT NULL,        -- 16 bytes, of the canonical URL
    crawl_id        bigint      NOT NULL,        -- the last run that touched it
    first_crawl_id  bigint      NOT NULL,
    url             text        NOT NULL,        -- as it goes on the wire
    canonical_url   text        NOT NULL,
    host            text        NOT NULL,        -- name of its queue
    depth           integer     NOT NULL,
    source_tag      text,
    fetch_status    text,                        -- null: no fetch of its own (disregarded, redirected, retry)
    schedule_status text        NOT NULL,
    http_status     integer,
    reason          text,                        -- one word
    detail          text,                        -- one line for people
    attempts        integer     NOT NULL,
    reported_at     timestamptz NOT NULL,        -- the worker's clock; an older report changes nothing
    fetched_at      timestamptz,                 -- the same, null when nothing was fetched
    health_signal   jsonb,                       -- null as a whole, or six fields
    object_id       bytea,
    content_id      bytea,
    content_status  text,                        -- fetch_status of content_id
    etag            text,                        -- of content_id, byte for byte (latin-1)
    last_modified   text,
    next_fetch_at   timestamptz,
    redirect_to     text,
    PRIMARY KEY (crawl_name, url_key)
);
CREATE INDEX page_of_run_by_status ON page (crawl_id, fetch_status, schedule_status);
CREATE INDEX page_of_run_by_host ON page (crawl_id, host);


-- body: bytes of distinct contents, when the database is the body store.
CREATE TABLE body (
    body_hash bytea   PRIMARY KEY,               -- 32 bytes, blake2b of the body
    size      integer NOT NULL,                  -- before compression
    data      bytea   NOT NULL                   -- zstd
);
ALTER TABLE body ALTER COLUMN data SET STORAGE EXTERNAL;


-- page_object: a content of one URL. Its id is a hash of crawl name, URL key and body, so the same
-- content fetched again is the same row; crawl_id and fetched_at are those of the last time.
CREATE TABLE page_object (
    object_id       bytea       PRIMARY KEY,     -- 16 bytes
    crawl_name      text        NOT NULL,
    url_key         bytea       NOT NULL,
    crawl_id        bigint      NOT NULL,
    fetched_at      timestamptz NOT NULL,
    url             text        NOT NULL,
    fetch_status    text        NOT NULL,        -- done or empty
    http_status     integer,
    body_hash       bytea       NOT NULL,
    body_size       bigint      NOT NULL,
    content_type    text,
    encoding        text,
    title           text,
    language        text,
    text_length     integer,                     -- null for binary bodies
    raw_text_length integer,
    health_signal   jsonb,
    headers         jsonb       NOT NULL,        -- [[name, value], …] as they came
    etag            text,
    last_modified   text,
    text            bytea,                       -- zstd of UTF-8; null for binary bodies
    outlinks        bytea                        -- zstd of one link per line: refills a lost frontier
);
ALTER TABLE page_object ALTER COLUMN text SET STORAGE EXTERNAL;
ALTER TABLE page_object ALTER COLUMN outlinks SET STORAGE EXTERNAL;
CREATE INDEX page_object_of_page ON page_object (crawl_name, url_key);


-- fetch: append-only log of every attempt and every refusal to make one, one partition per day, so that
-- old days go by DROP TABLE. The name is a reserved word and needs its quotes. What falls outside of
-- every day lands in fetch_default and is not lost. The key makes a repeated commit harmless.
CREATE TABLE "fetch" (
    at              timestamptz NOT NULL,        -- the worker's clock
    crawl_id        bigint      NOT NULL,
    url_key         bytea       NOT NULL,
    worker          text        NOT NULL,
    attempt         integer     NOT NULL,
    fetch_status    text,
    schedule_status text        NOT NULL,
    http_status     integer,
    reason          text,
    duration_ms     integer,
    bytes           bigint,
    object_id       bytea,
    PRIMARY KEY (crawl_id, url_key, at, worker)
) PARTITION BY RANGE (at);
CREATE TABLE fetch_default PARTITION OF "fetch" DEFAULT;


-- item: what spiders yield besides the page, replaced as a whole whenever the page is fetched again.
CREATE TABLE item (
    crawl_id bigint      NOT NULL,
    url_key  bytea       NOT NULL,
    n        integer     NOT NULL,               -- 0, 1, … in the order they were yielded
    at       timestamptz NOT NULL DEFAULT now(),
    data     jsonb       NOT NULL,
    PRIMARY KEY (crawl_id, url_key, n)
);


-- Makes the partitions of fetch from yesterday up to `ahead` days from now; returns how many are new.
-- Rows of a day that are already in fetch_default stay there, and that day gets no partition. One
-- session makes them at a time; a second one has nothing to wait for. A new partition locks the table for
-- a moment, and whoever waits for a long reader would hold up every writer, hence the time limit.
CREATE FUNCTION fetch_make_partitions(ahead integer) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    made  integer := 0;
    part  text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('crawlproj.fetch_make_partitions')) THEN
        RETURN 0;
    END IF;
    FOR day IN -1 .. ahead LOOP
        part := 'fetch_' || to_char(today + day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I PARTITION OF "fetch" FOR VALUES FROM (%L) TO (%L)',
                           part, (today + day)::text || ' 00:00+00', (today + day + 1)::text || ' 00:00+00');
            made := made + 1;
        EXCEPTION WHEN check_violation THEN
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$$;
SELECT fetch_make_partitions(7);
