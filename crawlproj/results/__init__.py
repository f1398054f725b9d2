"""What was found last at each URL, and the figures of the last day: a cache of the downloader, in Redis."""
