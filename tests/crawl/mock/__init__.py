"""One mock site: every way to answer that a crawl may meet, and what the crawl has to say of it."""
