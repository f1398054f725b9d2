"""Cookies: a jar that does not grow with the hosts of a crawl, and what the workers of a run share."""
