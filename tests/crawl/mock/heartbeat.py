"""An extension that looks how long the event loop stood still, and how much the process grew."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

BEAT = 0.01
MARK = "heartbeat "


class Heartbeat:
    """Beats while the spider runs, and says at the end what it has seen, as JSON after `heartbeat`.

    `longest_ms` is by the clock; `busiest_ms` is the time that the loop's thread computed between two beats,
    which is no longer on a machine that others use as well. `grown_mb` is what the process had at most, less
    what it had when the spider opened.
    """

    def __init__(self) -> None:
        self._longest = self._busiest = 0.0
        self._before = 0
        self._beating: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and listen."""
        self = cls()
        crawler.signals.connect(self.engine_started, signal=signals.engine_started)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    def engine_started(self) -> None:
        """Begin to beat."""
        self._before = _most_kb()
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    def spider_closed(self) -> None:
        """Say what was seen."""
        if self._beating is not None:
            self._beating.cancel()
        seen = {
            "longest_ms": round(self._longest * 1000),
            "busiest_ms": round(self._busiest * 1000),
            "grown_mb": (_most_kb() - self._before) // 1024,
        }
        logger.warning("%s%s", MARK, json.dumps(seen))

    async def _beat(self) -> None:
        while True:
            began, computed = time.monotonic(), time.thread_time()
            await asyncio.sleep(BEAT)
            self._longest = max(self._longest, time.monotonic() - began - BEAT)
            self._busiest = max(self._busiest, time.thread_time() - computed)


def _most_kb() -> int:
    """Return what the process had in memory at most; `getrusage` would count what started it as well."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
