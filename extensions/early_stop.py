"""Soft limits on time, targets, results and bytes: nothing new starts, what runs finishes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawlproj.crawls import lifecycle, notes
from crawlproj.crawls.stop_rules import Limits, exceeded
from crawlproj.exceptions import Refused
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.crawls.notes import StopNote

LOOK_SECONDS = 0.25  # the bound on how late a time limit is seen


class EarlyStopExtension:
    """Writes the STOP_EARLY_REASON note at the first limit that is reached and drains the crawl.

    The limits are per run, over all workers, and stand in its frontier, so that they can be turned. A limit
    on targets is exact: the frontier itself grants no more. Those on results and bytes are passed by what
    was under way, at most; that on time by CLOSE_GRACE_SECONDS.

    MAX_URLS stops nothing: what is let in is fetched, and a note says that there was more.

    Settings: MAX_TIME_SECONDS, MAX_TARGET, MAX_RESULT, MAX_BYTES.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._began = 0.0  #: on the monotonic clock, when the run started
        self._look: asyncio.Task[None] | None = None
        self._reached = False
        self._told = False  #: that URLs have been turned away

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it, always: another worker may have the limits, and its stop is ours too."""
        worker = Worker.of(crawler)
        self = cls(crawler, worker)
        crawler.signals.connect(self.engine_started, signal=signals.engine_started)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    async def engine_started(self) -> None:
        """Read since when the run is running, and begin to look."""
        worker = self._worker
        if not worker.is_open:
            return
        self._began = time.monotonic() - await lifecycle.elapsed(worker.life, worker.crawl)
        worker.after_finish.append(self.check)
        self._look = worker.watch(self._watch())

    async def spider_closed(self) -> None:
        """Look no longer."""
        if self._look is not None:
            self._look.cancel()

    def check(self) -> None:
        """Stop if a limit has been reached."""
        figures = self._worker.frontier.figures
        if figures.over and not self._told:
            self._told = True
            self._worker.spawn(self._tell_of_more())
        if self._reached or figures.stop:
            return
        knobs = self._worker.frontier.knobs  # as of now: they may be turned
        limits = Limits(
            seconds=knobs["max_time_seconds"],
            targets=int(knobs["max_target"]),
            results=int(knobs["max_result"]),
            bytes=int(knobs["max_bytes"]),
        )
        note = exceeded(
            limits,
            seconds=time.monotonic() - self._began,
            targets=figures.started,
            results=figures.results,
            waiting=figures.fresh > 0,
            received=figures.bytes,
        )
        if note is not None:
            self._reached = True
            # As many targets as may be have been leased: those count, and go out.
            self._worker.draining = note.fields["r"] != notes.TARGETS
            self._worker.spawn(self._stop(note))

    async def _stop(self, note: StopNote) -> None:
        await notes.write(
            self._worker.life,
            self._worker.crawl.id,
            namespace=note.namespace,
            message=note.message,
            fields=note.fields,
        )
        with contextlib.suppress(Refused):  # another worker has stopped it as well, and sealed it by now
            await self._worker.frontier.stop(note.fields["r"])
        self._reached = False  # from here on the frontier says it, and whether it is so still

    async def _tell_of_more(self) -> None:
        """Note that there was more to find than MAX_URLS let in: the run ends as any other one."""
        most = int(self._worker.frontier.knobs["max_urls"])
        await self._worker.note(
            "MAX_URLS", f"{most} URLs are let in and no more", {"limitUrls": str(most)}, once=True
        )

    async def _watch(self) -> None:
        """Look at the clock, and close the spider once the stopped crawl has drained."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.check()
            figures = self._worker.frontier.figures
            drained = figures.leased == 0 and not self._worker.visits
            if figures.stop and drained and not figures.paused:
                self._worker.close_spider("stopped_early")
                return
