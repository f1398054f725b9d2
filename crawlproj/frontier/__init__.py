"""URLs waiting to be fetched, in one queue per host, kept in Redis."""
