"""Waiting for one's turn on a domain, in this worker."""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crawlproj.exceptions import TooSoon
from crawlproj.politeness.pace import lateness_allowed_ms, poll_ms
from crawlproj.politeness.runtime import Busy, Grant

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.politeness.pace import Pace
    from crawlproj.politeness.runtime import DomainRuntime

MOVES = 2  # how often a start that comes too late is reserved anew


@dataclass(slots=True)
class _Line:
    """Who waits in this worker for a place on one domain."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    length: int = 0


class Turns:
    """Wait until a request may go out, first come, first served within this worker.

    Of those who wait for a place only the first asks Redis; a release in this worker wakes it at
    once, one in another worker is found by asking now and then.
    """

    def __init__(
        self,
        runtime: DomainRuntime,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._chance = chance
        self._lines: dict[str, _Line] = {}

    async def take(self, domain: str, pace: Pace, cap: int) -> Grant:
        """Return when the request may go out, right now. Its place has to be given back."""
        return await self._start(await self._place(domain, pace, cap), pace, cap)

    async def take_soon(self, domain: str, pace: Pace, cap: int, max_wait_ms: float) -> Grant:
        """Do the same within *max_wait_ms*, or raise TooSoon at once and leave nothing reserved."""
        answer = await self._runtime.reserve(
            domain, pace.interval_ms, pace.source, cap, max_wait_ms=max_wait_ms
        )
        if isinstance(answer, Busy):
            raise TooSoon(math.ceil(answer.retry_ms))
        return await self._start(answer, pace, cap)

    async def _start(self, grant: Grant, pace: Pace, cap: int) -> Grant:
        """Wait for a grant's time, and give it back when the wait is cut short."""
        try:
            await self._until(grant.wait_ms)
            # With one in flight nobody starts behind us before we give the place back, and then the
            # next one is put behind the time we really went out. With more, only moving helps.
            for _ in range(MOVES if cap > 1 else 0):
                if not self._is_late(grant):
                    break
                moved = await self._runtime.reserve(
                    grant.domain, pace.interval_ms, pace.source, cap, again=grant
                )
                if isinstance(moved, Busy):  # it expired while this worker stood still
                    self.give_back(grant, unused=True)
                    moved = await self._place(grant.domain, pace, cap)
                grant = moved
                await self._until(grant.wait_ms)
        except BaseException:
            self.give_back(grant, unused=True)
            raise
        return grant

    def lateness_ms(self, grant: Grant) -> float:
        """Return how long ago, at most, the reserved start was."""
        return (self._clock() - grant.due) * 1000

    def give_back(self, grant: Grant, *, late_ms: float = 0, unused: bool = False) -> None:
        """Free the place for the next one; see `DomainRuntime.release`."""
        self._runtime.release(grant, late_ms=late_ms, unused=unused)
        if line := self._lines.get(grant.domain):
            line.freed.set()

    def waiting(self, domain: str) -> int:
        """Return how many requests of this worker wait for a place on *domain*."""
        line = self._lines.get(domain)
        return line.length if line else 0

    async def _place(self, domain: str, pace: Pace, cap: int) -> Grant:
        if domain not in self._lines:
            answer = await self._runtime.reserve(domain, pace.interval_ms, pace.source, cap)
            if isinstance(answer, Grant):
                return answer
        line = self._lines.setdefault(domain, _Line())
        line.length += 1
        try:
            async with line.lock:
                return await self._ask(line, domain, pace, cap)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[domain]

    async def _ask(self, line: _Line, domain: str, pace: Pace, cap: int) -> Grant:
        tries = 0
        while True:
            line.freed.clear()
            answer = await self._runtime.reserve(domain, pace.interval_ms, pace.source, cap)
            if isinstance(answer, Grant):
                return answer
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_ms(answer.retry_ms, tries, jitter=self._chance()) / 1000):
                    await line.freed.wait()
            tries += 1

    async def _until(self, wait_ms: float) -> None:
        due = self._clock() + wait_ms / 1000
        # A loop's timers may fire a little early: they count in milliseconds, or from a stale clock.
        while (left := due - self._clock()) > 0:  # noqa: ASYNC110  # nothing else tells the time
            await asyncio.sleep(left)

    def _is_late(self, grant: Grant) -> bool:
        interval = grant.interval_ms
        return interval > 0 and self.lateness_ms(grant) > lateness_allowed_ms(interval)
