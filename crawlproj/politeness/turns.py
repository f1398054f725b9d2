"""Waiting for one's turn on a domain, in this worker."""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from crawlproj.exceptions import HostRests, TooSoon
from crawlproj.politeness.pace import LATEST_MS, poll_ms
from crawlproj.politeness.runtime import Busy, Grant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crawlproj.politeness.pace import Pace
    from crawlproj.politeness.runtime import DomainRuntime


MANY = 1000  # domains that rest; beyond it those that do no more are forgotten


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
        self._resting: dict[str, float] = {}  # domain -> until when, by this worker's clock

    async def take(self, domain: str, pace: Pace, cap: int) -> Grant:
        """Return when the request may go out, right now. Its place has to be given back.

        Raises HostRests, at once, while the domain is to be left alone.
        """
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
        """Wait for a grant's time, and give it back when the wait is cut short.

        One that comes later than it may, because this worker stood still, is reserved anew.
        """
        while True:
            try:
                await self._until(grant.sure)
            except BaseException:
                self.give_back(grant, unused=True)
                raise
            if (left := self._resting.get(grant.domain, 0.0) - self._clock()) > 0:
                self.give_back(grant, unused=True)  # reserved before it was known
                raise HostRests(math.ceil(left * 1000))
            if grant.interval_ms == 0 or self.lateness_ms(grant) <= grant.latest_ms:
                return grant
            self.give_back(grant, unused=True)
            # Twice as long each time: a server that is far away is no reason never to start.
            grant = await self._place(grant.domain, pace, cap, grant.latest_ms * 2)

    def lateness_ms(self, grant: Grant) -> float:
        """Return how long ago, at most, the reserved start was."""
        return (self._clock() - grant.due) * 1000

    def started(self, grant: Grant, late_ms: float) -> None:
        """Tell the others that the request went out; see `DomainRuntime.started`."""
        self._runtime.started(grant, late_ms)
        if grant.shared and (line := self._lines.get(grant.domain)):
            line.freed.set()

    def give_back(self, grant: Grant, *, late_ms: float = 0, unused: bool = False) -> None:
        """Free the place for the next one; see `DomainRuntime.release`."""
        self._runtime.release(grant, late_ms=late_ms, unused=unused)
        if line := self._lines.get(grant.domain):
            line.freed.set()

    def rest(self, domain: str, milliseconds: int) -> None:
        """Leave a domain alone for so long, in the whole fleet.

        What this worker has reserved does not take place; of what others have, one start at most still may.
        """
        now = self._clock()
        if len(self._resting) > MANY:
            self._resting = {name: until for name, until in self._resting.items() if until > now}
        self._resting[domain] = max(self._resting.get(domain, 0.0), now + milliseconds / 1000)
        self._runtime.rest(domain, milliseconds)

    def waiting(self, domain: str) -> int:
        """Return how many requests of this worker wait for a place on *domain*."""
        line = self._lines.get(domain)
        return line.length if line else 0

    async def _place(self, domain: str, pace: Pace, cap: int, latest_ms: float = LATEST_MS) -> Grant:
        ask = partial(self._runtime.reserve, domain, pace.interval_ms, pace.source, cap, latest_ms=latest_ms)
        refusal: Busy | None = None
        if domain not in self._lines:
            answer = await ask()
            if isinstance(answer, Grant):
                return answer
            _check(answer)
            if domain not in self._lines:  # else others have made a line meanwhile, and go first
                refusal = answer
        line = self._lines.setdefault(domain, _Line())
        line.length += 1
        try:
            async with line.lock:
                return await self._ask(line, ask, refusal)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[domain]

    async def _ask(
        self, line: _Line, ask: Callable[[], Awaitable[Grant | Busy]], refusal: Busy | None
    ) -> Grant:
        tries = 0
        while True:
            if refusal is not None:
                wait_ms = poll_ms(refusal.retry_ms, None if refusal.known else tries, jitter=self._chance())
                tries += not refusal.known
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await line.freed.wait()
            line.freed.clear()
            answer = await ask()
            if isinstance(answer, Grant):
                return answer
            _check(answer)
            refusal = answer

    async def _until(self, due: float) -> None:
        # A loop's timers may fire a little early: they count in milliseconds, or from a stale clock.
        while (left := due - self._clock()) > 0:  # noqa: ASYNC110  # nothing else tells the time
            await asyncio.sleep(left)


def _check(answer: Busy) -> None:
    """Raise HostRests for a domain that is to be left alone: nobody is to wait here for minutes."""
    if answer.rests:
        raise HostRests(math.ceil(answer.retry_ms))
