-- When pages are visited again.
--
-- revisit_seconds: the page's own interval, by crawlproj/pages/revisit.py; null until a visit has found out
-- how the page is. next_fetch_at: when it is due; null: it was stored before there were revisits, and comes
-- by its links alone.
-- request (0002): of every page now, where the URL alone does not lead back to the request.
ALTER TABLE page ADD COLUMN revisit_seconds real;
