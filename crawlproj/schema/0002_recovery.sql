-- What a lost frontier is filled from that is in no page object, and the order in which people read pages.
--
-- outlinks: of a page that stored no object (the target of a redirect, links of an errback or of the
-- callback of an error page), packed as those of an object are. Those of an earlier fetch of the same run
-- stay when a later one has none.
-- request: what the queue entry says beyond the URL, of a page that waits for another attempt and of one
-- that was asked for with a method or a body of its own: its key in the seen filter depends on these.
ALTER TABLE page
    ADD COLUMN outlinks bytea,
    ADD COLUMN request  text;
ALTER TABLE page ALTER COLUMN outlinks SET STORAGE EXTERNAL;
CREATE INDEX page_of_name_by_time ON page (crawl_name, reported_at, url_key);
