"""Scrapy's process, which the first signal ends only when all has been said."""

from __future__ import annotations

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.ossignal import install_shutdown_handlers


class CrawlProcess(AsyncCrawlerProcess):
    """Waits at a signal for crawls that are being set up, and for those that have closed already.

    Scrapy's own asks the engine, which does not run yet or any more, and stops the event loop: under a worker
    that has joined a run and would leave it, or that is about to say how its part ended. A second signal
    ends it at once, as ever.
    """

    _asked = False  #: to stop, before

    def start(self, stop_after_crawl: bool = True, install_signal_handlers: bool = True) -> None:
        """Run until the crawls are over; a signal counts from here on."""
        if install_signal_handlers and self.settings.getbool("TWISTED_REACTOR_ENABLED"):
            # Scrapy's own come last of all that a reactor does to start, and it logs a Ctrl-C and goes on.
            install_shutdown_handlers(self._signal_shutdown)
        super().start(stop_after_crawl, install_signal_handlers)

    async def stop(self) -> None:
        """Stop all crawls and return when they have ended; when asked again, at once."""
        again, self._asked = self._asked, True
        await super().stop()
        if not again:
            await self.join()
