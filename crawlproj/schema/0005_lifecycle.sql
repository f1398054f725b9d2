-- Crawls that are added beforehand, that repeat, and that go on where a limit has stopped them.
--
-- label, tags: for people; tags in lower case, to look for.
-- scheduled_at: when a run was to begin; the next one of a crawl that repeats is counted from there.
-- repeat_seconds: when this run is sealed, its next one is queued so long after scheduled_at.
-- kept: an early stop left URLs in the frontier of this sealed run, for the next run to go on with.
-- continues: this run has taken the frontier of the run before.
-- pace, paced_at: what a worker says of its own speed, and when; see crawlproj/crawls/pace.py.
ALTER TABLE crawl
    ADD COLUMN label          text,
    ADD COLUMN tags           text[]      NOT NULL DEFAULT '{}',
    ADD COLUMN scheduled_at   timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN repeat_seconds bigint      CHECK (repeat_seconds > 0),
    ADD COLUMN kept           boolean     NOT NULL DEFAULT false,
    ADD COLUMN continues      boolean     NOT NULL DEFAULT false;
ALTER TABLE worker_lease
    ADD COLUMN pace     jsonb,
    ADD COLUMN paced_at timestamptz;
CREATE INDEX crawl_tags ON crawl USING gin (tags);
