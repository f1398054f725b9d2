"""Scrapy's process, which the first signal ends only when all has been said."""

from __future__ import annotations

from scrapy.crawler import AsyncCrawlerProcess


class CrawlProcess(AsyncCrawlerProcess):
    """Waits at a signal for crawls that are being set up, and for those that have closed already.

    Scrapy's own asks the engine, which does not run yet or any more, and stops the event loop: under a worker
    that has joined a run and would leave it, or that is about to say how its part ended. A second signal
    ends it at once, as ever.
    """

    _asked = False  #: to stop, before

    async def stop(self) -> None:
        """Stop all crawls and return when they have ended; when asked again, at once."""
        again, self._asked = self._asked, True
        await super().stop()
        if not again:
            await self.join()
