"""An extension that ends its own process at a moment of a crawl's life, once per crawl."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

from crawlproj.signals import EVENTS
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

    from crawlproj.signals import CrawlEvent

LOOK_SECONDS = 0.005
ANSWERS = 3  #: after so many a worker is in mid-crawl
SECOND_PRESS_SECONDS = 0.2

#: What is sent, and sent once more.
BY = {
    "SIGTERM": (signal.SIGTERM,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
    "SIGKILL": (signal.SIGKILL,),
}
#: When: at the events of a crawl's life, and while pages are under way.
MOMENTS = ("setup", "start", "mid-crawl", "draining", "cleanup", "closed")
_OF_EVENTS = {
    "crawl_setup": "setup",
    "crawl_start": "start",
    "crawl_cleanup": "cleanup",
    "crawl_completed": "closed",
}


class Killer:
    """Sends its own process what KILL_BY says at KILL_AT, unless the file KILL_MARK is there: it makes that.

    *closed* is between the close of the frontier and the seal of the row. What is sent twice is sent again a
    moment later, as a person presses keys; a worker that ends quicker waits for it at its next event. The
    mark holds the number of the process, and a word for each further signal that it has taken.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._at, self._by, self._mark = settings["KILL_AT"], settings["KILL_BY"], Path(settings["KILL_MARK"])
        self._answers = 0
        self._look: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and listen; before the extension that sends the events, so that it hears them first."""
        self = cls(crawler)
        for signal_ in EVENTS.values():
            crawler.signals.connect(self.event_came, signal=signal_)
        crawler.signals.connect(self.response_received, signal=signals.response_received)
        crawler.signals.connect(self.engine_started, signal=signals.engine_started)
        return self

    async def event_came(self, event: CrawlEvent) -> None:
        """Kill at an event; at the last one if the frontier is closed by then."""
        moment = _OF_EVENTS[event.kind]
        if moment == self._at and (moment != "closed" or event.through):
            self._kill()
        if self._again is not None:
            await self._again

    def response_received(self) -> None:
        """Kill in mid-crawl."""
        self._answers += 1
        if self._at == "mid-crawl" and self._answers == ANSWERS:
            self._kill()

    def engine_started(self) -> None:
        """Look out for a stop."""
        if self._at == "draining":
            self._look = asyncio.get_running_loop().create_task(self._drains())

    async def _drains(self) -> None:
        worker: Any = Worker.of(self._crawler)
        while not (worker.is_open and worker.frontier.figures.stop and worker.visits):  # noqa: ASYNC110  # nothing is sent
            await asyncio.sleep(LOOK_SECONDS)
        self._kill()

    def _kill(self) -> None:
        try:
            with self._mark.open("x") as mark:
                mark.write(str(os.getpid()))
        except FileExistsError:
            return
        first, *more = BY[self._by]
        os.kill(os.getpid(), first)
        if more:
            self._again = asyncio.get_running_loop().create_task(self._press(more))

    async def _press(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            await asyncio.sleep(SECOND_PRESS_SECONDS)
            before = signal.getsignal(number)
            os.kill(os.getpid(), number)
            if signal.getsignal(number) is not before:  # Scrapy's handler puts another one in its own place
                with self._mark.open("a") as mark:
                    mark.write(" again")
