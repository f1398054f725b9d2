"""One robots.txt for the fleet: fetched by one worker, kept in Redis, parsed once in each."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from crawlproj.politeness.robots import RobotsFile, Rules, lifetime
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crawlproj.scripts import Scripts

PREFIX = "downloader:robots:"
LOCK_SECONDS = 15.0  # a worker that dies while it fetches holds the others up no longer
POLL_FIRST, POLL_MAX = 0.05, 0.5  # seconds between looks while another worker fetches
PARSED_BYTES = 8 * 1024 * 1024  # of robots.txt kept parsed; parsed they take about ten times as much
ENTRY_BYTES = 1024  # what an entry weighs besides
IN_A_THREAD = 16 * 1024  # bytes that take longer to parse than the event loop should stand still

Fetch: TypeAlias = "Callable[[], Awaitable[RobotsFile]]"
Found: TypeAlias = "Callable[[str, Rules], Awaitable[None]]"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one authority allows, and until when that is good."""

    rules: Rules
    until: float  #: monotonic

    def left_ms(self, now: float) -> int:
        """Return for how long it is still good."""
        return max(round((self.until - now) * 1000), 0)


class Memory:
    """The verdicts used last, bounded by their size and their time."""

    def __init__(self, max_bytes: int = PARSED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, authority: str, now: float) -> Verdict | None:
        """Return the verdict, unless its time is over."""
        verdict = self._verdicts.get(authority)
        if verdict is None:
            return None
        if verdict.until <= now:
            self._forget(authority)
            return None
        self._verdicts.move_to_end(authority)
        return verdict

    def put(self, authority: str, verdict: Verdict) -> None:
        """Keep a verdict; those not used for longest make room."""
        if authority in self._verdicts:
            self._forget(authority)
        self._verdicts[authority] = verdict
        self._bytes += verdict.rules.size + ENTRY_BYTES
        while self._bytes > self._max_bytes and len(self._verdicts) > 1:
            self._forget(next(iter(self._verdicts)))

    def _forget(self, authority: str) -> None:
        self._bytes -= self._verdicts.pop(authority).rules.size + ENTRY_BYTES


class FleetRobots:
    """Find out what an authority (scheme, host and port) allows.

    Everybody who asks for an authority that is not known waits for the one answer, and for *found*,
    which is called with it.
    """

    def __init__(
        self,
        scripts: Scripts,
        found: Found,
        *,
        keep_seconds: float,
        retry_seconds: float,
        longest_retry_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scripts = scripts
        self._found = found
        self._keep_seconds = keep_seconds
        self._retry_seconds = retry_seconds
        self._longest_retry_seconds = longest_retry_seconds
        self._clock = clock
        self._look = script(__package__, "robots_look")
        self._save = script(__package__, "robots_save")
        self._token = secrets.token_hex(6)
        self._memory = Memory()
        self._searches: dict[str, asyncio.Task[Verdict]] = {}

    def known(self, authority: str) -> Verdict | None:
        """Return the verdict if this worker has it."""
        return self._memory.get(authority, self._clock())

    async def find(self, authority: str, fetch: Fetch) -> Verdict:
        """Return the verdict: from this worker, from the fleet, or by *fetch*."""
        search = self._searches.get(authority)
        if search is None:
            search = asyncio.get_running_loop().create_task(self._search(authority, fetch))
            self._searches[authority] = search
            search.add_done_callback(lambda done: self._searched(authority, done))
        # Whoever gives up waiting does so alone.
        return await asyncio.shield(search)

    async def stored(self, authority: str) -> Rules | None:
        """Return what the fleet knows of an authority now; nobody is asked for it."""
        packed, _, _ = await self._scripts.call(self._look, _keys(authority), "", 0)
        file = RobotsFile.unpack(packed) if packed is not None else None
        return None if file is None else await _parsed(file)

    async def close(self) -> None:
        """Give up what is being looked for, and the locks with it."""
        searches = list(self._searches.values())
        for search in searches:
            search.cancel()
        if searches:
            await asyncio.wait(searches)

    def _searched(self, authority: str, search: asyncio.Task[Verdict]) -> None:
        del self._searches[authority]
        if not search.cancelled():
            search.exception()  # whoever still waits has it; nobody may be left to

    async def _search(self, authority: str, fetch: Fetch) -> Verdict:
        pause = POLL_FIRST
        while True:
            packed, left_ms, ours = await self._ask(authority)
            if packed is not None:
                file = RobotsFile.unpack(packed)
                if file is not None:
                    return await self._remember(authority, file, left_ms / 1000)
                logger.warning("What Redis has as %s%s is none of ours; fetched anew", PREFIX, authority)
                return await self._fetch(authority, fetch)
            if ours:
                return await self._fetch(authority, fetch)
            await asyncio.sleep(pause)
            pause = min(pause * 2, POLL_MAX)

    async def _ask(self, authority: str) -> tuple[bytes | None, int, int]:
        keys = _keys(authority)
        packed, left_ms, ours = await self._scripts.call(
            self._look, keys, self._token, round(LOCK_SECONDS * 1000)
        )
        return packed, left_ms, ours

    async def _fetch(self, authority: str, fetch: Fetch) -> Verdict:
        renewal = asyncio.get_running_loop().create_task(self._keep_lock(authority))
        packed, seconds = b"", 0.0
        try:
            file = await fetch()
            packed, seconds = file.pack(), self._lifetime(file)
        finally:
            renewal.cancel()
            saved = self._scripts.call(
                self._save, _keys(authority), self._token, packed, round(seconds * 1000)
            )
        await saved
        return await self._remember(authority, file, seconds)

    async def _keep_lock(self, authority: str) -> None:
        while True:
            await asyncio.sleep(LOCK_SECONDS / 3)
            await self._ask(authority)

    async def _remember(self, authority: str, file: RobotsFile, seconds: float) -> Verdict:
        now = self._clock()
        rules = await _parsed(file)
        verdict = Verdict(rules, now + seconds)
        await self._found(authority, rules)
        self._memory.put(authority, verdict)
        return verdict

    def _lifetime(self, file: RobotsFile) -> float:
        seconds = lifetime(file.finding, keep_seconds=self._keep_seconds, retry_seconds=self._retry_seconds)
        return max(seconds, min(file.asks_seconds, self._longest_retry_seconds))


async def _parsed(file: RobotsFile) -> Rules:
    return await asyncio.to_thread(Rules, file) if len(file.body) > IN_A_THREAD else Rules(file)


def _keys(authority: str) -> tuple[str, str]:
    key = PREFIX + authority
    return key, f"{{{key}}}:lock"
