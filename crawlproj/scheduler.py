"""Scrapy's scheduler over the frontier: leases instead of a queue that forgets what it hands out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from crawlproj.exceptions import MissingComponent
from crawlproj.frontier.feed import Feed
from crawlproj.frontier.requests import meta_count
from crawlproj.intake import Intake
from crawlproj.lookahead import Lookahead
from crawlproj.pages.revisit import Schedule
from crawlproj.revisit import Revisit, wishes
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0  # what closing may take when Redis is away; the lease time covers the rest
BACKLOG = 2  # how often as many pages as may be in flight may wait to be parsed and stored
STORED_AT_ONCE = 64  # pages that the store commits together
START_SECONDS = 5.0  # for how long known pages wait for start requests to be first

#: Makes the engine ask for requests at once instead of at its next 5-second heartbeat.
WAKE = Request("data:,wake", dont_filter=True)


class FrontierScheduler(BaseScheduler):
    """Hands out what the frontier leases to this worker, and takes what it is to queue.

    Settings: MAX_CONCURRENT_COUNT, LEASE_SECONDS, MAX_ATTEMPTS, REVISIT_*.
    Stats: those of Intake; scheduler/dequeued, frontier/unreadable; revisit/queued, revisit/not_due,
    revisit/unwanted.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._config = worker.config
        self._spider: Spider
        self._ahead = Lookahead(crawler, worker, wake=lambda: crawler.engine.crawl(WAKE))
        self.intake = Intake(crawler, worker, added=self._ahead.wake)
        self._feed: Feed | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._started = asyncio.Event()  #: the spider has no more start requests

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it; it works once the lifecycle extension has claimed the crawl."""
        return cls(crawler, Worker.of(crawler))

    # --- what Scrapy calls ----------------------------------------------------------------------

    def open(self, spider: Spider) -> None:
        """Check that its companions are there."""
        if self._worker.pages is None:
            raise MissingComponent("SCHEDULER needs middlewares.page.PageMiddleware in SPIDER_MIDDLEWARES")
        self._spider = self._ahead.spider = self.intake.spider = spider
        self._worker.after_finish.append(self._ahead.wake)
        self._feed = Feed.of(spider)

    def close(self, reason: str) -> Deferred[None]:
        """Send what is pending and give back what was not started."""
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        """Say whether there is work for this worker, now or later, or for any other."""
        if self._ahead.holds_leases or self.intake.pending or self._worker.visits:
            return True
        if not self._ahead.asked:
            return True
        figures = self._worker.frontier.figures
        if figures.closed:
            return False
        if figures.stop and not figures.paused:
            return figures.leased > 0
        # A crawl that is to pause at its finish does so when it is asked for more, and says so then.
        return not (figures.idle and self._ahead.through)

    def enqueue_request(self, request: Request) -> bool:
        """Take a request for the frontier. False: it was seen before, or cannot be kept."""
        if request is WAKE:
            return True
        visit = self._worker.visit_of(request)
        if visit is not None and not visit.done:
            if meta_count(request, "redirect_times") > visit.redirects:
                self.intake.redirect(request, visit)
                return True
            if meta_count(request, "retry_times") > visit.retries:
                visit.retries = meta_count(request, "retry_times")
                self._ahead.once_more(request)
                return True
        start = bool(request.meta.get("is_start_request")) and visit is None
        return self.intake.take(request, forced=request.dont_filter and not start, seed=start)

    def next_request(self) -> Request | None:
        """Return a request that is due, if one has been fetched ahead and there is room for it."""
        self._ahead.starved = True
        if self._worker.stopping or not self._ahead.asked:
            return None
        if len(self._crawler.engine.downloader.active) >= self._config.max_concurrent_count:
            return None
        if len(self._worker.visits) >= BACKLOG * self._config.max_concurrent_count + STORED_AT_ONCE:
            return None  # the store does not keep up
        return self._ahead.next()

    # --- what the lifecycle and the page middleware call ----------------------------------------

    def start(self) -> None:
        """Begin to lease; called when the crawl has been claimed and the engine runs."""
        self._tasks = [self._run(self._ahead.renew())]
        if self._worker.crawl.run > 1:
            filling = self._revisit()
            self.intake.marked = filling.marked
            self._tasks.append(self._run(self._fill(filling)))
        if self._feed is not None:
            self._tasks.append(self._run(self.intake.read(self._feed)))
        self._fetching = self._run(self._ahead.fetch(self.intake.may_begin))

    @property
    def holds_leases(self) -> bool:
        """Say whether leases of this worker have not become requests yet."""
        return self._ahead.holds_leases

    def no_more_starts(self) -> None:
        """Note that the spider has yielded all its start requests."""
        self._started.set()

    # --- inside ---------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._worker.give_up("scheduler_failed", error)

    def _revisit(self) -> Revisit:
        """Return what brings in the pages that earlier runs know."""
        worker = self._worker
        return Revisit(
            worker.database.another(f"{worker.id} revisit"),
            worker.frontier,
            worker.codec,
            worker.crawl,
            most=Schedule.from_config(self._config).most,
            wants=wishes(self._crawler, self._spider, worker.admission),
            starts=self._starts_sent,
            seen_cache=self._config.seen_cache,
        )

    async def _fill(self, filling: Revisit) -> None:
        try:
            await filling.run()
            for name, count in filling.done.items():
                self._crawler.stats.inc_value(f"revisit/{name}", count)
            self._ahead.wake()
        finally:
            await filling.close()

    async def _starts_sent(self) -> None:
        """Wait until the start requests are in the frontier; for a spider that has ever more, for a while."""
        self._ahead.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._started.wait()
                await self.intake.sent()

    async def _close(self) -> None:
        self._ahead.close()
        self.intake.give_up()
        if self._worker.is_open:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._give_all_back()
            except TimeoutError:
                logger.warning("Redis is away: leases are not given back but run out by themselves")
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _give_all_back(self) -> None:
        if self._fetching is not None:
            # Not cancelled: what the server grants to a call that nobody waits for would be lost for a lease.
            await self._fetching
        await self.intake.sent()
        await self._ahead.give_back()
        await self._worker.give_back([*self._worker.visits])
        await self._ahead.leave_domains(CLOSE_SECONDS)
