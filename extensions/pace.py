"""Says, beside the worker's lease, how fast it is and what holds it up."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg
from scrapy import signals

from crawlproj.crawls import pace
from crawlproj.crawls.pace import Moment, Recent, Shares
from crawlproj.exceptions import ServerUnreachable
from crawlproj.progress import Rate, figures_of
from crawlproj.results.histogram import quantile
from crawlproj.scheduler import BACKLOG, STORED_AT_ONCE
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.connections import Database

LOOK_SECONDS = 0.25
WRITE_SECONDS = 5.0
PATIENCE = 2.0  # seconds for a write; the next one says the same, and more
DURATION = "ms:"  # what the report pipeline counts durations under
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class PaceExtension:
    """Look four times a second at what the worker does, and write down every five what that came to.

    `scrapy status` puts together what the workers of a run say. A database that is away, or that keeps the
    store waiting, costs these figures and nothing else.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._worker = Worker.of(crawler)
        self._shares = Shares()
        self._recent = Recent()
        self._rate = Rate()
        self._waiting: dict[int, float] = {}  #: lease -> since when its page has waited for its commit
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it; it looks from the engine's start to the spider's close."""
        self = cls(crawler)
        crawler.signals.connect(self.engine_started, signal=signals.engine_started)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    def engine_started(self) -> None:
        """Begin to look."""
        if self._worker.is_open:
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def spider_closed(self) -> None:
        """Say no more: the worker is about to leave."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _look(self) -> None:
        # Not the connection for pages: what waits there is what is to be told.
        database = self._worker.life
        writing: asyncio.Task[None] | None = None
        began = looked = written = time.monotonic()
        computed = _wanted()
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                now, before, wanted, computed = time.monotonic(), looked, computed, _wanted()
                looked = now
                self._shares.add(now, pace.cause(self._moment(now, (computed - wanted) / (now - before))))
                self._rate.add(now, self._pages())
                if now - written >= WRITE_SECONDS and (writing is None or writing.done()):
                    written = now
                    writing = asyncio.create_task(self._write(database, now - began))
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.wait([writing])

    def _moment(self, now: float, busy: float) -> Moment:
        worker, most = self._worker, self._worker.config.max_concurrent_count
        visits = worker.visits
        # The spider's own pipelines have had the items of a page by the time that the store gets it.
        to_store = [token for token, visit in visits.items() if visit.done and visit.pending_items <= 0]
        self._waiting = {token: self._waiting.get(token, now) for token in to_store}
        figures = worker.frontier.figures
        rests = figures.paused or figures.stop or worker.draining or worker.stopping
        return Moment(
            in_flight=len(self._crawler.engine.downloader.active),
            on_the_wire=sum(1 for visit in visits.values() if visit.started and not visit.ended),
            most=most,
            to_store=len(to_store),
            waited=now - min(self._waiting.values(), default=now),
            held_back=len(visits) >= BACKLOG * most + STORED_AT_ONCE,
            queued=0 if rests else figures.queued - figures.held,
            busy=busy,
        )

    def _pages(self) -> int:
        return figures_of(self._worker, 0).pages

    async def _write(self, database: Database, seconds: float) -> None:
        # What the server says no to, or has no time for, is said again in a moment.
        with suppress(TimeoutError, ServerUnreachable, psycopg.Error):
            async with asyncio.timeout(PATIENCE):
                await pace.write(database, self._worker.crawl, self._worker.id, self._as_dict(seconds))

    def _as_dict(self, seconds: float) -> dict[str, Any]:
        skip = len(DURATION)
        counts = {
            int(name[skip:]): count for name, count in self._worker.tally.items() if name.startswith(DURATION)
        }
        durations = self._recent.add(time.monotonic(), counts)
        rate = self._rate.per_second()
        return {
            "pages": self._pages(),
            "seconds": round(seconds, 1),
            "rate": None if rate is None else round(rate, 3),
            "p50_ms": quantile(durations, 0.5),
            "p95_ms": quantile(durations, 0.95),
            "durations": durations,
            "in_flight": len(self._crawler.engine.downloader.active),
            "causes": self._shares.as_dict(),
        }


def _wanted() -> float:
    """Return for how many seconds this thread has computed, or has had to wait for a processor.

    On a machine that others use, the waits are what tells a worker that can do no more from one that rests.
    """
    try:
        ran, waited, _ = _SCHEDSTAT.read_text(encoding="ascii").split()
    except (OSError, ValueError):  # no Linux, or one that does not tell
        return time.thread_time()
    return (int(ran) + int(waited)) / 1e9
