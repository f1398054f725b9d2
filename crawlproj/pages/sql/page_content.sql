-- What is inside a page object, packed.
-- object_id  bytea
-- returns text, outlinks, body (null when another place keeps it), body_at (that place), body_hash
SELECT o.text, o.outlinks, b.data AS body, b.store AS body_at, o.body_hash
  FROM page_object AS o
  LEFT JOIN body AS b USING (body_hash)
 WHERE o.object_id = %(object_id)s
