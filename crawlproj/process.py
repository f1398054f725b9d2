"""Scrapy's process, which a signal ends only when all has been said."""

from __future__ import annotations

from scrapy.crawler import AsyncCrawlerProcess


class CrawlProcess(AsyncCrawlerProcess):
    """Waits at a signal for crawls that are being set up, and for those that have closed already.

    Scrapy's own asks the engine, which does not run yet or any more, and stops the event loop: under a worker
    that has joined a run and would leave it, or that is about to say how its part ended. A second signal
    ends it at once, as ever.
    """

    async def stop(self) -> None:
        """Stop all crawls and return when they have ended."""
        await super().stop()
        await self.join()
