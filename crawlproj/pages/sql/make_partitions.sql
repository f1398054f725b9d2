-- Makes the partitions of the fetch log for the coming days.
--
-- ahead: how many days.  Returns how many partitions are new.
SELECT fetch_make_partitions(%(ahead)s)
