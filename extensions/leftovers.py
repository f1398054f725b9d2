"""Sees to what dead workers have left behind, and tells when Redis has lost what a run had left to do."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Self

import psycopg
from redis.exceptions import RedisError
from scrapy import signals

from crawlproj.crawls import lifecycle
from crawlproj.exceptions import CrawlError
from crawlproj.frontier.find import drop_all
from crawlproj.signals import crawl_setup, crawl_start
from crawlproj.worker import Worker

if TYPE_CHECKING:
    import asyncio

    from scrapy.crawler import Crawler

    from crawlproj.signals import CrawlEvent

logger = logging.getLogger(__name__)

LATEST = 100  # sealed runs whose frontiers a worker looks for


class LeftoversExtension:
    """Takes dead workers off their runs and drops frontiers of sealed runs, beside the crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._worker = Worker.of(crawler)
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and listen to the crawl's life."""
        self = cls(crawler)
        crawler.signals.connect(self.warn_of_loss, signal=crawl_setup)
        crawler.signals.connect(self.tidy, signal=crawl_start)
        crawler.signals.connect(self.engine_stopped, signal=signals.engine_stopped)
        return self

    async def warn_of_loss(self, event: CrawlEvent) -> None:
        """Say that a run which had pages begins anew, because its frontier has just been made."""
        worker = self._worker
        figures = await worker.frontier.refresh()
        if not (figures.seen or figures.started) and await lifecycle.has_pages(worker.life, worker.crawl):
            logger.warning(
                "Redis has lost the frontier of crawl %s, which begins at its start again; stop it and say"
                " `scrapy rebuild %s --force` to go on where it was",
                event.crawl,
                shlex.quote(event.crawl),
            )

    def tidy(self) -> None:
        """Begin to see to it; nobody waits."""
        self._task = self._worker.watch(self._tidy())

    def engine_stopped(self) -> None:
        """Leave the rest to others."""
        if self._task is not None:
            self._task.cancel()

    async def _tidy(self) -> None:
        worker = self._worker
        try:
            await lifecycle.reclaim(worker.life)
            # A worker that dies between the seal and the drop leaves one.
            sealed = await lifecycle.sealed_frontiers(worker.life, LATEST)
            if left := await drop_all(worker.redis, worker.scripts, sealed):
                logger.info("%d frontiers of sealed runs were left behind and are gone now", len(left))
        except (CrawlError, RedisError, psycopg.Error) as exc:  # nobody's crawl depends on it
            logger.warning("Frontiers of sealed runs may be left behind: %s", exc)
