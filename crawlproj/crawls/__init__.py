"""A crawl from its creation to its seal: states, workers, notes."""
