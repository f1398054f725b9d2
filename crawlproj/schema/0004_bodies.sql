-- Bodies that are kept elsewhere than in the database.
--
-- A body is in exactly one place, the first that it was kept in: data, or the file <aa>/<hash>.zst below the
-- URL in store (without a login). A row is there only when its body is safe, so whoever has a body whose row
-- is there need not keep it again.
ALTER TABLE body
    ALTER COLUMN data DROP NOT NULL,
    ADD COLUMN store text,
    ADD CONSTRAINT body_is_in_one_place CHECK ((data IS NULL) <> (store IS NULL));
