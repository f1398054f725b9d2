"""The four events of a crawl's life, as Scrapy signals.

Each is sent with `crawl` (a `crawlproj.crawls.lifecycle.Crawl`) and `worker` (the worker's id).
Subscribe with `crawler.signals.connect(handler, signal=crawl_start)`.
"""

crawl_setup = object()  #: this worker has joined the crawl; nothing has been fetched by it yet
crawl_start = object()  #: the engine runs; URLs are leased from now on
crawl_cleanup = object()  #: this worker has stopped fetching; sent with `reason`
crawl_completed = object()  #: the worker has left; sent with `reason` and `sealed`
