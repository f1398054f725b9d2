"""Writes what the downloader found, in batches and in the background.

It is a cache: a page's report does not wait for it, and whoever needs to know for certain asks PostgreSQL.
While Redis is away what was noted last waits, up to MOST results; what comes beyond, and what a worker had
not sent when it was killed, is lost. On a server that is nearly full nothing new is kept: the frontier needs
the room.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from crawlproj.items import FetchStatus
from crawlproj.later import Later
from crawlproj.results.histogram import class_of
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crawlproj.items import PageObject
    from crawlproj.scripts import Argument, Scripts

RESULT = "downloader:fetch_result:"
COUNTS = "downloader:fetch_counts:"
HOUR = 3600
KEPT_HOURS = 26  # a day, the hour that runs, and one for clocks that go wrong
SOON = 1.0  # seconds that a result may wait for others
BATCH = 128  # results in one script: it stays below a millisecond on the server
MOST = 4096  # results that may wait: about 1.5 MB
FULL = 0.8  # of the server's maxmemory
LOOK_SECONDS = 30.0  # between two looks at that

logger = logging.getLogger(__name__)


class FetchResults:
    """What one worker notes of its fetches. *memory* asks the server for its `INFO memory`.

    *keep_seconds*: how long the result of a URL is kept; 0: none is, and only counters are written.
    """

    def __init__(
        self,
        scripts: Scripts,
        memory: Callable[[], Awaitable[Mapping[str, Any]]],
        *,
        crawl: str,
        worker: str,
        keep_seconds: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._scripts = scripts
        self._memory = memory
        self._crawl = crawl
        self._keep_ms = keep_seconds * 1000
        self._clock = clock
        self._who = f',"crawl":{json.dumps(crawl)},"worker":{json.dumps(worker)}}}'
        self._results: dict[str, str] = {}  #: key -> JSON; of a URL only what came last
        self._counts: defaultdict[int, Counter[str]] = defaultdict(Counter)  #: hour -> field -> times
        self._note = script(__package__, "note")
        self._later = Later(self._send, seconds=SOON, what="keeping the results of fetches")
        self._full = False
        self._looked_at = float("-inf")

    def note(self, page: PageObject, entry: str = "a") -> None:
        """Take in a page with its verdict. *entry* is the way it was asked for: a lease, render, probe.

        What was not fetched is no result: disregarded URLs and redirects have no fetch status.
        """
        status = page.fetch_status
        if status is None:
            return
        counts = self._counts[int(self._clock()) // HOUR]
        counts[_STATUS[status]] += 1
        counts["entry:" + entry] += 1
        if page.reason is not None and status is FetchStatus.FAILED:
            counts["reason:" + page.reason] += 1
        if page.duration_ms is not None:
            counts[f"ms:{class_of(page.duration_ms)}"] += 1
        if self._keep_ms and not self._full and len(self._results) < MOST:
            self._results[RESULT + page.key.hex()] = as_json(page) + self._who
        if len(self._results) < BATCH:
            self._later.soon()
        else:
            self._later.now()

    async def close(self, seconds: float) -> None:
        """Send what has been noted, if that takes no longer than *seconds*."""
        await self._later.close(seconds)

    async def _send(self) -> None:
        await self._look()
        while self._results or self._counts:
            keys = list(self._results)[:BATCH]
            results = {key: self._results.pop(key) for key in keys}
            counts, self._counts = self._counts, defaultdict(Counter)
            counters = {
                f"{COUNTS}{hour}{suffix}": fields
                for hour, fields in counts.items()
                for suffix in ("", f":{self._crawl}")
            }
            if self._scripts.are_together(*results, *counters):
                await self._write(results, counters)
                continue
            for key, result in results.items():
                await self._write({key: result}, {})
            for key, fields in counters.items():
                await self._write({}, {key: fields})

    async def _write(self, results: Mapping[str, str], counters: Mapping[str, Mapping[str, int]]) -> None:
        flat: list[Argument] = [len(results), self._keep_ms, KEPT_HOURS * HOUR * 1000, *results.values()]
        for fields in counters.values():
            flat.append(len(fields))
            flat += (part for pair in fields.items() for part in pair)
        await self._scripts.call(self._note, (*results, *counters), *flat)

    async def _look(self) -> None:
        """See whether the server has room for what only is a cache."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        try:
            memory = await self._memory()
        except (RedisError, OSError):
            return
        most = memory.get("maxmemory") or 0
        full = bool(most) and memory.get("used_memory", 0) > FULL * most
        if full and not self._full:
            logger.info("Redis is nearly full; results of fetches are not kept until it has room again")
        self._full = full
        if full:
            self._results.clear()


def as_json(page: PageObject) -> str:
    """Return what is kept of a page, as an object that is still open."""
    signal = page.health_signal
    health = "null" if signal is None else _HEALTH % tuple(map(_number, signal.as_dict().values()))
    return _RESULT % (
        "null" if page.fetch_status is None else page.fetch_status.value,
        _number(page.http_status),
        "null" if page.reason is None else json.dumps(page.reason),
        page.fetched_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "null" if page.object_id is None else f'"{page.object_id}"',
        health,
    )


# Filled in by hand: json.dumps takes three times as long, for every page.
_RESULT = (
    '{"fetch_status":"%s","http_status":%s,"reason":%s,"fetched_at":"%s","object_id":%s,"health_signal":%s'
)
_HEALTH = (
    '{"render_duration_ms":%s,"raw_text_length":%s,"text_length":%s,"xhr_error_count":%s,'
    '"xhr_total_count":%s,"has_console_error":%s}'
)
_STATUS = {status: f"status:{status.value}" for status in FetchStatus}
_WORDS: Mapping[object, str] = {None: "null", True: "true", False: "false"}


def _number(value: object) -> str:
    return _WORDS[value] if value is None or isinstance(value, bool) else str(value)
