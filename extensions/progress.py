"""Shows people how a crawl gets on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Self

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import get_scrapy_root_handler

from crawlproj.progress import LiveLine, Rate, figures_of, line
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

LIVE_SECONDS = 0.5
LOGGED_SECONDS = 60.0


class ProgressExtension:
    """Draw one live line on a terminal, or log the same line once a minute.

    Settings: PROGRESS_ENABLED; LOG_FILE and the terminal decide which of the two.
    """

    def __init__(self, crawler: Crawler, live: LiveLine | None) -> None:
        self._worker = Worker.of(crawler)
        self._live = live
        self._rate = Rate()
        self._hosts = 0
        self._task: asyncio.Task[None] | None = None
        self._screen = contextlib.ExitStack()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it; it runs from the engine's start to the spider's close."""
        if not crawler.settings.getbool("PROGRESS_ENABLED", True):
            raise NotConfigured
        live = LiveLine() if not crawler.settings.get("LOG_FILE") and LiveLine.possible() else None
        self = cls(crawler, live)
        crawler.signals.connect(self.engine_started, signal=signals.engine_started)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    def engine_started(self) -> None:
        """Begin to report."""
        if self._live:
            self._screen.enter_context(self._live.around(get_scrapy_root_handler()))
        self._task = asyncio.get_running_loop().create_task(self._report())

    def spider_closed(self) -> None:
        """Take the line away; what is left to say is the summary."""
        if self._task:
            self._task.cancel()
            self._task = None
        self._screen.close()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(LIVE_SECONDS if self._live else LOGGED_SECONDS)
            if not self._worker.is_open:
                continue
            with contextlib.suppress(RedisError, TimeoutError):  # the last figure has to do
                async with asyncio.timeout(LIVE_SECONDS):
                    self._hosts = await self._worker.frontier.busy_hosts()
            figures = figures_of(self._worker, self._hosts)
            self._rate.add(time.monotonic(), figures.pages)
            text = line(figures, self._rate.per_second())
            if self._live:
                self._live.show(text)
            else:
                logger.info("%s", text)
