"""A worker's part in a crawl's life: it claims the run, sends the events, and ends in time."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import CloseSpider

from crawlproj.crawls import lifecycle
from crawlproj.crawls.grace import STEP_SECONDS, Grace, Step
from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.crawls.service import ERRORS, CrawlService
from crawlproj.engine import is_closing, signal_is_lost
from crawlproj.exceptions import INTERRUPTED, CrawlError, Refused
from crawlproj.frontier.pending import dump_to, pending_path, shown_entry
from crawlproj.run_lease import RunLease
from crawlproj.signals import EVENTS, CrawlEvent
from crawlproj.worker import Outcome, Worker

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from crawlproj.crawls.lifecycle import Crawl

logger = logging.getLogger(__name__)

#: Reasons for closing after which nothing is left to do here: the run may be sealed.
ENDS = frozenset({"finished", "stopped_early"})
LOOK_SECONDS = 0.25  # how late the end of the grace may be seen


class LifecycleExtension:
    """Claims the crawl when the spider opens, renews its lease, and says what happens to it.

    What it says are the four events of `crawlproj/signals.py`; CrawlService, which listens as anybody may,
    keeps the run's row. The frontier is closed before the last of them: nothing enters any more, so that
    what the row says then stays true.

    Settings: CRAWL_NAME, CRAWL_JOIN, WORKER_ID, LEASE_SECONDS, CLOSE_GRACE_SECONDS, CRAWL_PHASE_SECONDS,
    EARLY_STOP_QUEUE, FRONTIER_DUMP_PENDING_AT_CLOSE; those of RunLease.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._worker = Worker.of(crawler)
        self._grace = Grace(self._worker.config.close_grace_seconds)
        self._signalled = Grace(self._worker.config.close_grace_seconds)
        self._phase_seconds = self._worker.config.crawl_phase_seconds
        self._lease = RunLease(self._worker, taken_again=self._begin_again)
        self._service: CrawlService | None = None  # here, because signals keep no handler alive
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self._started = False
        self._told: set[tuple[int, str]] = set()  #: events of which stint have been sent
        self._completing: asyncio.Task[Outcome] | None = None
        self._reason: str | None = None  #: why the engine closed, as soon as it says so

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

    # --- what Scrapy calls ----------------------------------------------------------------------

    async def spider_opened(self, spider: Spider) -> None:
        """Claim the crawl. An error closes the spider: Scrapy would log it and wait for ever."""
        worker = self._worker
        try:
            await self._interruptible(worker.open(spider))
            self._service = CrawlService(worker.life, lease_seconds=worker.config.lease_seconds)
            self._service.subscribe(self._crawler.signals)
            now = await lifecycle.read(worker.life, worker.crawl)
            if now.status is CrawlStatus.SEALED:  # meanwhile
                await self._drop_frontier(now)
                raise CloseSpider("finished")
            await self._lease.obey(now.status)
            await self._send("crawl_setup")
        except CrawlError as exc:
            logger.error("%s", exc)
            worker.outcome = Outcome(exit_code=exc.exit_code, sealed=False, reason=str(exc))
            raise CloseSpider("setup_failed") from None
        except asyncio.CancelledError:
            raise CloseSpider("shutdown") from None
        except CloseSpider:
            raise
        except Exception as exc:
            logger.exception("The crawl cannot be set up")
            worker.outcome = Outcome(exit_code=1, sealed=False, reason=str(exc))
            raise CloseSpider("setup_failed") from exc
        self._tasks.append(worker.watch(self._end_in_time()))
        logger.info("Crawl %s, run %d, worker %s", worker.crawl.name, worker.crawl.run, worker.id)
        if not self._crawler.crawling:  # a signal has come meanwhile, and nobody else looks at it
            raise CloseSpider("shutdown")

    async def engine_started(self) -> None:
        """Begin to lease."""
        self._started = True
        worker = self._worker
        if not worker.is_open:
            return
        beside = (self._lease.keep(), self._lease.leave_when_paused(), worker.keep_servers())
        self._tasks += [worker.watch(work) for work in beside]
        try:
            await self._send("crawl_start")
            self._crawler.engine.scheduler.start()  # type: ignore[union-attr]
        except Exception as exc:  # noqa: BLE001  # whatever it is: without a start nothing would ever end
            worker.give_up("setup_failed", exc)

    async def spider_closed(self, reason: str) -> None:
        """Say that nothing is fetched here any more; nothing is sealed yet."""
        self._reason = reason
        if self._worker.is_open:
            await self._send("crawl_cleanup", reason=reason, error=self._worker.error)
        if not self._started:
            await self.engine_stopped()  # Scrapy sends that to nobody who has not heard of a start

    async def engine_stopped(self) -> None:
        """Close the frontier if nothing is left in it, and say that this worker is done."""
        worker = self._worker
        if not worker.is_open:
            return
        # Two signals in a row close the engine without a word.
        worker.outcome = await self._completed(self._reason or "shutdown")
        for task in self._tasks:
            task.cancel()
        if not await self._in_time(worker.settled()):  # Redis is away, and leases run out
            logger.warning("What this worker still had to say is left unsaid")
        await worker.close()

    async def _begin_again(self) -> None:
        """Say that this worker is at work after all, in a stint of its own."""
        await self._send("crawl_setup")
        await self._send("crawl_start")

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work*, which may wait for servers: once a signal has come, not for longer than the grace."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_SECONDS)
            if self._signalled.due(time.monotonic(), ending=not self._crawler.crawling) is not None:
                task.cancel()
        await task

    # --- events ---------------------------------------------------------------------------------

    async def _send(self, kind: str, **more: Any) -> None:
        """Tell whoever listens, once per stint of this worker, and wait for them: not for ever."""
        crawl = self._worker.crawl
        if (crawl.epoch, kind) in self._told:
            return
        self._told.add((crawl.epoch, kind))
        event = CrawlEvent(
            kind=kind,
            crawl_id=crawl.id,
            crawl=crawl.name,
            run=crawl.run,
            spider=crawl.spider,
            worker=self._worker.id,
            epoch=crawl.epoch,
            **more,
        )
        tell = self._crawler.signals.send_catch_log_async(EVENTS[kind], event=event)
        if not await self._in_time(tell):
            logger.warning("Those who listen to %s take longer than CRAWL_PHASE_SECONDS", kind)

    async def _in_time(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Do *work* within the time that a phase may take; say whether it came to its end."""
        try:
            async with asyncio.timeout(self._phase_seconds):
                await work
        except TimeoutError:
            return False
        return True

    async def _completed(self, reason: str) -> Outcome:
        """Do it once, whoever asks first; the other waits for it."""
        if self._completing is None:
            self._completing = asyncio.create_task(self._complete(reason))
        return await asyncio.shield(self._completing)

    async def _complete(self, reason: str) -> Outcome:
        """Say that this worker is done, and whether the run is."""
        worker = self._worker
        if reason in ENDS and worker.frontier_gone and not await self._sealed():
            reason = "frontier_lost"  # nothing is left, but nobody has ended the run
            name = shlex.quote(worker.crawl.name)
            words = "Redis has lost the frontier of crawl"
            worker.error = f"{words} {name}: `scrapy rebuild {name}` fills it again"
            logger.error("%s", worker.error)
        through = reason in ENDS and await self._close_frontier()
        figures = worker.frontier.figures
        keeps = through and worker.config.early_stop_queue == "keep" and figures.queued > 0
        if through and figures.queued and not keeps:
            keeps = not await self._dump_pending()
        if through and figures.dead:
            await self._in_time(self._note_dead(figures.dead))
        counts = {
            "started_targets": figures.started,
            "results": figures.results,
            "queued": figures.queued,
            "dead": figures.dead,
        }
        await self._send(
            "crawl_completed",
            reason=reason,
            error=worker.error,
            through=through,
            stop_reason=(figures.stop or "done") if through else None,
            keeps=keeps,
            counts=counts if through else {},
        )
        sealed = await self._sealed() if through else None
        if sealed is not None and not await self._in_time(self._drop_frontier(sealed)):
            logger.warning("The frontier of crawl %s is left behind: Redis is away", worker.crawl.name)
        return Outcome(exit_code=_exit_code(reason), sealed=sealed is not None, reason=reason)

    async def _sealed(self) -> Crawl | None:
        """Return the run if it is sealed: CrawlService, who listens, had the last word, or another worker."""
        try:
            async with asyncio.timeout(self._phase_seconds):
                now = await lifecycle.read(self._worker.life, self._worker.crawl)
        except TimeoutError:
            return None
        return now if now.status is CrawlStatus.SEALED else None

    async def _drop_frontier(self, sealed: Crawl) -> None:
        """Remove the frontier, unless it is kept for the next run, or is that one's already.

        Whoever sealed the run has decided so, and had settings of its own.
        """
        if not sealed.kept and sealed.frontier == self._worker.crawl.frontier:
            await self._worker.frontier.drop()

    async def _close_frontier(self) -> bool:
        """Let nothing in any more, if nothing is left; say whether that is so."""
        try:
            async with asyncio.timeout(self._phase_seconds):
                return await self._worker.frontier.seal()
        except TimeoutError:
            return False

    async def _dump_pending(self) -> bool:
        """Write what is left queued to a file, where that is wanted; say whether it may be forgotten."""
        worker = self._worker
        if not worker.config.dump_pending and worker.config.early_stop_queue != "dump":
            return True
        path = pending_path(worker.config.home, worker.crawl.name, worker.crawl.run)
        try:
            left = await dump_to(worker.frontier, worker.codec, path)
        except OSError as exc:
            words = f"URLs still queued cannot be written to {path} ({exc}): the next run goes on with them"
            logger.error("%s", words)
            await self._in_time(worker.note("QUEUE_NOT_DUMPED", words, {"path": str(path)}, once=True))
            return False
        if left is not None:  # else whoever dropped it has written the file
            words = f"{left} URLs that were still queued are in {path}"
            logger.info("%s", words)
            fields = {"urls": left, "path": str(path)}
            await self._in_time(worker.note("QUEUE_DUMPED", words, fields, once=True))
        return True

    async def _note_dead(self, count: int) -> None:
        """Say what nobody will try again: it goes with the frontier."""
        worker = self._worker
        reasons: Counter[str] = Counter()
        example = ""
        with suppress(Refused):  # whoever dropped it has said so
            async for letter in worker.frontier.dead_letters():
                example = example or str(shown_entry(worker.codec, letter.host, letter.entry)["url"])
                reasons[letter.reason] += 1
            told = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
            words = f"{count} URLs were given up: {told}; one of them is {example}"
            logger.warning("%s", words)
            await worker.note("DEAD_LETTERS", words, {"dead": count, **reasons, "url": example}, once=True)

    # --- the end --------------------------------------------------------------------------------

    async def _end_in_time(self) -> None:
        """See to it that a worker that is to end does, whatever it still waits for."""
        worker = self._worker
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if signal_is_lost(self._crawler):
                self._stopping = asyncio.create_task(self._crawler.engine.stop_async())
            ending = is_closing(self._crawler) or self._winds_up()
            if not ending:
                worker.cut = False  # what had its time is gone
            now, signalled = time.monotonic(), not self._crawler.crawling
            step = self._grace.due(now, ending=ending)
            last = self._signalled.due(now, ending=signalled)
            if Step.CUT in {step, last} and not worker.cut:
                if worker.visits:
                    logger.info("%d requests are still under way and are cut short", len(worker.visits))
                worker.cut_short()
            if Step.DROP in {step, last} and (left := await worker.drop_under_way()):
                logger.warning("%d requests do not come to an end; they are due again", left)
            # Without a signal who listens to the end has all the time it takes: a feed may be on its way.
            if last is Step.LEAVE:
                await self._leave()

    def _winds_up(self) -> bool:
        """Say whether a limit has stopped the run, and all that goes out here still has gone out."""
        worker, figures = self._worker, self._worker.frontier.figures
        if not figures.stop or figures.paused or not worker.visits:
            return False
        # As many targets as may be have been leased: they have their turns, however long these take.
        waits = self._crawler.engine.scheduler.holds_leases or not worker.all_sent()  # type: ignore[union-attr]
        return worker.draining or not waits

    async def _leave(self) -> None:
        """End without the engine, which waits for something that does not come."""
        worker, reason = self._worker, self._reason or self._worker.reason or "shutdown"
        self._phase_seconds = min(self._phase_seconds, STEP_SECONDS)
        if self._completing is None:
            logger.warning("Something holds the engine up; this worker leaves it at that")
            if worker.is_open:
                await self._send("crawl_cleanup", reason=reason, error=worker.error)
        if worker.is_open:  # the engine's own end, if it comes after all, cancels this
            worker.outcome = await self._completed(reason)
        asyncio.get_running_loop().stop()


def _exit_code(reason: str) -> int:
    if reason in ERRORS:
        return 1
    return INTERRUPTED if reason in {"shutdown", "lease_lost", "paused"} else 0
