-- The time of the database as a part of a name.
SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISS')
