"""The crawl's life, projected from Scrapy's signals on its row in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import shlex
from typing import TYPE_CHECKING, Any, Self

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import CloseSpider

from crawlproj.crawls import lifecycle
from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.exceptions import CrawlError, NotFound, Refused
from crawlproj.frontier.find import drop_all
from crawlproj.frontier.pending import dump_to, pending_path
from crawlproj.redaction import without_secrets
from crawlproj.signals import crawl_cleanup, crawl_completed, crawl_setup, crawl_start
from crawlproj.worker import Outcome, Worker

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

#: Reasons for closing after which nothing is left to do here: the run may be sealed.
ENDS = frozenset({"finished", "stopped_early"})
INTERRUPTED = 11
LATEST = 100  # sealed runs whose frontiers a worker looks for
#: Reasons for closing that are errors of this worker.
ERRORS = frozenset({"worker_failed", "scheduler_failed", "pipeline_failed", "start_error", "setup_failed"})

EVENTS = {
    crawl_setup: "crawl_setup",
    crawl_start: "crawl_start",
    crawl_cleanup: "crawl_cleanup",
    crawl_completed: "crawl_completed",
}


class LifecycleExtension:
    """Claims the crawl when the spider opens, renews its lease, seals it when nothing is left.

    A run is sealed at the very end alone, once the frontier agrees that nothing is left; otherwise whoever
    comes next may go on at once.

    Settings: CRAWL_NAME, CRAWL_JOIN, WORKER_ID, LEASE_SECONDS.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._worker = Worker.of(crawler)
        self._heart: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._reason = "shutdown"  # two signals in a row close the engine without a word

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and subscribe."""
        self = cls(crawler)
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.engine_started, signals.engine_started),
            (self.spider_closed, signals.spider_closed),
            (self.engine_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal=signal)
        return self

    async def spider_opened(self, spider: Spider) -> None:
        """Claim the crawl. An error closes the spider: Scrapy would log it and wait for ever."""
        arguments = {
            name: without_secrets(name, value)
            for name, value in spider.__dict__.items()
            if isinstance(value, str)
        }
        try:
            await self._worker.open(spider.name, arguments)
            await self._obey((await lifecycle.read(self._worker.database, self._worker.crawl)).status)
            await self._warn_of_loss()
            await self._send(crawl_setup)
        except CrawlError as exc:
            logger.error("%s", exc)
            self._worker.outcome = Outcome(exit_code=exc.exit_code, sealed=False, reason=str(exc))
            raise CloseSpider("setup_failed") from None
        except Exception as exc:
            logger.exception("The crawl cannot be set up")
            self._worker.outcome = Outcome(exit_code=1, sealed=False, reason=str(exc))
            raise CloseSpider("setup_failed") from exc
        crawl = self._worker.crawl
        logger.info("Crawl %s, run %d, worker %s", crawl.name, crawl.run, self._worker.id)

    async def engine_started(self) -> None:
        """Begin to lease."""
        if not self._worker.is_open:
            return
        self._heart = self._worker.watch(self._beat())
        self._guard = self._worker.watch(self._worker.keep_servers())
        self._tidying = self._worker.watch(self._tidy())
        try:
            await self._send(crawl_start)
            self._crawler.engine.scheduler.start()  # type: ignore[union-attr]
        except Exception as exc:  # noqa: BLE001  # whatever it is: without a start nothing would ever end
            self._worker.give_up("setup_failed", exc)

    async def spider_closed(self, reason: str) -> None:
        """Stop the heartbeat's work for the crawl; nothing is sealed here."""
        self._reason = reason
        if self._worker.is_open:
            await self._send(crawl_cleanup, reason=reason)

    async def engine_stopped(self) -> None:
        """Seal the run if nothing is left anywhere, else leave it due at once."""
        worker = self._worker
        for task in (self._heart, self._guard, self._tidying):
            if task is not None:
                task.cancel()
        if not worker.is_open:
            return
        sealed = False
        if self._reason in ENDS and await worker.frontier.seal():
            sealed = await self._seal()
        await lifecycle.release(worker.database, worker.crawl, worker.id)
        await self._send(crawl_completed, reason=self._reason, sealed=sealed)
        worker.outcome = Outcome(exit_code=_exit_code(self._reason), sealed=sealed, reason=self._reason)
        await worker.settled()
        await worker.close()

    async def _seal(self) -> bool:
        worker = self._worker
        figures = worker.frontier.figures
        if worker.config.dump_pending and figures.queued:
            path = pending_path(worker.config.home, worker.crawl.name, worker.crawl.run)
            left = await dump_to(worker.frontier, worker.codec, path)
            logger.info("%d URLs that were still queued are in %s", left, path)
        sealed = await lifecycle.seal(
            worker.database,
            worker.crawl,
            worker.id,
            stop_reason=figures.stop or "done",
            counts={"started_targets": figures.started, "results": figures.results, "queued": figures.queued},
        )
        if sealed:
            await worker.frontier.drop()  # what was left undone is in the counts, what was found in the pages
        return sealed

    async def _beat(self) -> None:
        """Renew this worker's lease of the crawl until cancelled."""
        worker = self._worker
        while True:
            await asyncio.sleep(worker.config.lease_seconds / 3)
            status = await lifecycle.renew(
                worker.database, worker.crawl, worker.id, lease_seconds=worker.config.lease_seconds
            )
            if status is not None:
                await self._obey(status)
                await lifecycle.reclaim(worker.database)
            elif not await self._rejoin():
                logger.warning("Crawl %s is over, or paused by now; this worker stops", worker.crawl.name)
                # Whoever sealed it found nothing left to do, as this worker would have a moment later.
                now = await lifecycle.read(worker.database, worker.crawl)
                worker.close_spider("finished" if now.status is CrawlStatus.SEALED else "lease_lost")
                return

    async def _warn_of_loss(self) -> None:
        """Say that a run which had pages begins anew, because its frontier has just been made."""
        worker = self._worker
        figures = await worker.frontier.refresh()
        if not (figures.seen or figures.started) and await lifecycle.has_pages(worker.database, worker.crawl):
            name = worker.crawl.name
            logger.warning(
                "Redis has lost the frontier of crawl %s, which begins at its start again; stop it and say"
                " `scrapy rebuild %s --force` to go on where it was",
                name,
                shlex.quote(name),
            )

    async def _tidy(self) -> None:
        """Drop frontiers of sealed runs whose worker died between the one and the other."""
        worker = self._worker
        try:
            sealed = await lifecycle.sealed_frontiers(worker.database, LATEST)
            if left := await drop_all(worker.redis, worker.scripts, sealed):
                logger.info("%d frontiers of sealed runs were left behind and are gone now", len(left))
        except (CrawlError, RedisError) as exc:  # nobody's crawl depends on it
            logger.warning("Frontiers of sealed runs may be left behind: %s", exc)

    async def _obey(self, status: CrawlStatus) -> None:
        """Pause the frontier of a paused run, should whoever paused it not have come that far."""
        frontier = self._worker.frontier
        if status is not CrawlStatus.PAUSED or (await frontier.refresh()).paused:
            return
        await frontier.pause()
        # It may have been resumed between the two looks, and nobody would do it again.
        if (await lifecycle.read(self._worker.database, self._worker.crawl)).status is not CrawlStatus.PAUSED:
            await frontier.resume()

    async def _rejoin(self) -> bool:
        """Claim the run again, if all that happened is that a renewal came too late."""
        worker = self._worker
        now = await lifecycle.read(worker.database, worker.crawl)
        if now.status in {CrawlStatus.PAUSED, CrawlStatus.SEALED}:
            return False
        try:
            worker.crawl = await lifecycle.claim(
                worker.database,
                name=worker.crawl.name,
                spider=worker.crawl.spider,
                worker=worker.id,
                lease_seconds=worker.config.lease_seconds,
                config=worker.crawl.config,
                join_only=True,
            )
        except (NotFound, Refused):  # paused or sealed in this very moment
            return False
        return worker.crawl.id == now.id

    async def _send(self, signal: object, **more: Any) -> None:
        """Tell whoever subscribes, and write it down once per stint of this worker."""
        await self._crawler.signals.send_catch_log_async(
            signal, crawl=self._worker.crawl, worker=self._worker.id, **more
        )
        kind = EVENTS[signal]
        await lifecycle.record_event(self._worker.database, self._worker.crawl, self._worker.id, kind, more)


def _exit_code(reason: str) -> int:
    if reason in ERRORS:
        return 1
    return INTERRUPTED if reason in {"shutdown", "lease_lost"} else 0
