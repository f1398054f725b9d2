"""A fleet in virtual time: the real scripts on a real server, with clocks that jump from event to event.

Nothing waits, so a crawl of minutes takes as long as its calls; and lateness is what the test says, not
what the machine does.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crawlproj.politeness.pace import IntervalSource, Pace
from crawlproj.politeness.runtime import DomainRuntime, Grant
from crawlproj.politeness.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import redis

    from crawlproj.scripts import Argument, Script

SERVER_EPOCH = 4_000_000_000  # virtual; after every real time, so that no key expires of itself
CLOCK = "virtual:now"
FAKE_TIME = b"""
local real = redis
local redis = { call = function(name, ...)
  if name ~= 'TIME' then return real.call(name, ...) end
  local now = tonumber(real.call('GET', '%s'))
  return { math.floor(now / 1000000), now %% 1000000 }
end }
""" % CLOCK.encode()


class _Jumps(selectors.DefaultSelector):
    """Does not wait for a timeout but moves the clock by it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; with nothing to do and no timer the test would hang."""
        found = super().select(0)
        if not found and timeout is None:
            raise RuntimeError("everybody waits and no timer is set")
        if not found and timeout:
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where everybody waits."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        """Return the virtual time."""
        return self._jumps.now


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test in virtual time, of which five minutes are more than any needs."""

    async def bounded() -> None:
        async with asyncio.timeout(300):
            await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(bounded())


class VirtualScripts:
    """Runs each script at once, at the virtual time it would have got there; the answer takes as long."""

    lost_at = float("-inf")

    def __init__(self, client: redis.Redis, latency: Callable[[], float]) -> None:
        self.calls = 0
        self.dead = False  #: what is called from now on gets nowhere
        self._client = client
        self._latency = latency
        self._there = 0.0  #: when the last call arrives: they keep their order

    def call(self, script: Script, keys: Sequence[str], *arguments: Argument) -> asyncio.Future[Any]:
        """Return the future reply."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if not self.dead:
            self.calls += 1
            self._there = max(self._there, loop.time() + self._latency())
            loop.call_at(self._there, self._run, script, keys, arguments, answer)
        return answer

    def _run(self, script: Script, keys: Sequence[str], arguments: Any, answer: asyncio.Future[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._client.set(CLOCK, round((SERVER_EPOCH + loop.time()) * 1e6))
        head, shebang, body = script.text.rpartition(b"allow-oom\n")
        reply = self._client.eval(head + shebang + FAKE_TIME + body, len(keys), *keys, *arguments)
        loop.call_later(self._latency(), lambda: answer.done() or answer.set_result(reply))


class LateTurns(Turns):
    """Wakes up late, as often and as much as *lateness* says, in seconds."""

    def __init__(self, *given: Any, lateness: Callable[[], float], **more: Any) -> None:
        super().__init__(*given, **more)
        self._lateness = lateness

    async def _until(self, due: float) -> None:
        await super()._until(due)
        await asyncio.sleep(self._lateness())


@dataclass
class Fleet:
    """Workers that fetch from one domain, and when its server saw their requests, in seconds."""

    client: redis.Redis
    cap: int
    interval: float
    latency: Callable[[], float] = lambda: 0.0003
    lateness: Callable[[], float] = lambda: 0.0
    service: Callable[[], float] = lambda: 0.02
    seed: int = 1
    workers: list[LateTurns] = field(default_factory=list)
    starts: list[tuple[float, int]] = field(default_factory=list)  #: when, by which worker
    late: list[float] = field(default_factory=list)  #: how late each was, by the reserved time

    def join(self) -> int:
        """Let one more worker in and return its number."""
        loop = asyncio.get_running_loop()
        scripts = VirtualScripts(self.client, self.latency)
        runtime = DomainRuntime(scripts, clock=loop.time)  # type: ignore[arg-type]
        chance = random.Random(self.seed + len(self.workers)).random
        self.workers.append(LateTurns(runtime, clock=loop.time, chance=chance, lateness=self.lateness))
        return len(self.workers) - 1

    async def fetch(self, worker: int) -> None:
        """Fetch one page as the throttle lets a request go."""
        turns = self.workers[worker]
        pace = Pace(interval_ms=round(self.interval * 1000), source=IntervalSource.LEASE)
        grant: Grant = await turns.take("e.test", pace, self.cap)
        now = asyncio.get_running_loop().time()
        late_ms = turns.lateness_ms(grant)
        self.starts.append((now, worker))
        self.late.append(SERVER_EPOCH + now - grant.start_ms / 1000)
        turns.started(grant, late_ms)
        await asyncio.sleep(self.service())
        turns.give_back(grant, late_ms=late_ms)

    async def crawl(self, workers: int, pages: int) -> None:
        """Fetch pages, all of them at hand at once, by as many workers in turn."""
        for _ in range(workers):
            self.join()
        await asyncio.gather(*(self.fetch(n % workers) for n in range(pages)))
        self.stop()

    def kill(self, worker: int) -> None:
        """Let nothing of a worker reach the server any more, and renew nothing."""
        runtime = self.workers[worker]._runtime
        runtime._scripts.dead = True  # type: ignore[attr-defined]
        runtime.abandon()

    def stop(self) -> None:
        """Stop the timers."""
        for turns in self.workers:
            turns._runtime.abandon()
