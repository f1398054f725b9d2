-- What the spider yielded besides one page, in the last run that did.
-- crawl_name  text
-- url_key     bytea
SELECT data
  FROM item
 WHERE url_key = %(url_key)s
   AND crawl_id = (SELECT max(i.crawl_id)
                     FROM crawl AS c
                     JOIN item AS i ON i.crawl_id = c.id AND i.url_key = %(url_key)s
                    WHERE c.name = %(crawl_name)s)
 ORDER BY n
