"""The reservation of starts on a domain, kept in Redis for the whole fleet."""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.scripts import Scripts

PREFIX = "downloader:domain_runtime:"


def keys_of(domain: str) -> tuple[str, str]:
    """Return the keys of a domain, given by its host key: what is known, and who is in flight.

    The braces keep the second in the cluster slot of the first, whose name is a contract.
    """
    key = PREFIX + domain
    return key, f"{{{key}}}:in_flight"


def _waiting(domain: str) -> str:
    """Return the key of those who wait for a place, in the same slot."""
    return f"{{{PREFIX}{domain}}}:waiting"


@dataclass(frozen=True, slots=True)
class Grant:
    """A start that is reserved, and a place among the domain's requests in flight."""

    domain: str
    member: str
    wait_ms: float  #: from the moment it was handed out; never early
    start_ms: int  #: on the server's clock
    interval_ms: int
    due: float  #: monotonic; the reserved start is not before this


@dataclass(frozen=True, slots=True)
class Busy:
    """No start could be reserved: too many in flight, or the wait would be too long."""

    retry_ms: float  #: asking earlier is of no use


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainState:
    """What the fleet knows of one domain."""

    last_request_at: int  #: ms; in the future while a reserved start is still to come
    in_flight_count: int
    min_interval_ms: int
    min_interval_source: str


class DomainRuntime:
    """Reserve starts for this worker.

    *hold_ms*: how long a request counts as in flight after its worker was last heard of; renewed in
    the background. *keep_ms*: how long an idle domain is remembered, at least; one with a longer
    interval is remembered for that.
    """

    def __init__(
        self,
        scripts: Scripts,
        *,
        hold_ms: int = 60_000,
        keep_ms: int = 300_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scripts = scripts
        self._hold_ms = hold_ms
        self._keep_ms = keep_ms
        self._clock = clock
        self._reserve = script(__package__, "reserve")
        self._release = script(__package__, "release", allow_oom=True)
        self._renew = script(__package__, "renew", allow_oom=True)
        self._read = script(__package__, "read", allow_oom=True)
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count()
        self._held: dict[str, tuple[str, float]] = {}  # member -> domain, when last renewed
        self._renewal: asyncio.TimerHandle | None = None

    async def reserve(
        self,
        domain: str,
        interval_ms: int,
        source: str,
        cap: int,
        *,
        max_wait_ms: float | None = None,
        again: Grant | None = None,
    ) -> Grant | Busy:
        """Reserve the next start that keeps *interval_ms* from the one before it.

        *max_wait_ms* refuses a start further away. *again* moves an earlier grant: its start is given
        back when no other follows it, and its place is kept.
        """
        member = again.member if again else f"{self._prefix}:{next(self._numbers)}"
        most = -1 if max_wait_ms is None else max_wait_ms
        given = again.start_ms if again else 0
        try:
            while True:
                asked = self._clock()
                reply: list[int] = await self._scripts.call(
                    self._reserve,
                    (*keys_of(domain), _waiting(domain)),
                    *(member, interval_ms, source, cap, self._hold_ms, self._keep_ms),
                    *(given, self._amnesia_ms(interval_ms, cap), most),
                )
                # Asked before an outage and answered after it: by a server that may have forgotten.
                if self._scripts.lost_at < asked or not reply[0]:
                    break
                given = reply[2]
        except BaseException:
            # It may have been granted all the same. Taking out what is not there does no harm.
            self._held.pop(member, None)
            self._scripts.call(self._release, keys_of(domain), member, given, interval_ms, -1)
            raise
        wait_ms = reply[1] / 1000
        if not reply[0]:
            return Busy(wait_ms)
        self._hold(member, domain, asked)
        return Grant(domain, member, wait_ms, reply[2], interval_ms, asked + wait_ms / 1000)

    def release(self, grant: Grant, *, late_ms: float = 0, unused: bool = False) -> None:
        """Give the place back, without waiting for it; more than once does no harm.

        *late_ms* says how long after its reserved start the request went out, at most, so that the
        next one keeps its distance from that; *unused* that it never did.
        """
        if self._held.pop(grant.member, None) is None:
            return
        late = -1 if unused else max(math.ceil(late_ms), 0)
        keys = keys_of(grant.domain)
        self._scripts.call(self._release, keys, grant.member, grant.start_ms, grant.interval_ms, late)

    async def read(self, domain: str) -> DomainState | None:
        """Return what is known of a domain. Members of workers that died are not counted."""
        last, count, interval, source = await self._scripts.call(self._read, keys_of(domain))
        if last is None:
            return None
        return DomainState(
            last_request_at=int(last),
            in_flight_count=count,
            min_interval_ms=int(interval),
            min_interval_source=source.decode(),
        )

    async def flush(self) -> None:
        """Return when every release has reached the server, or no longer matters.

        With Redis away that is as long as a member counts: after that it has expired by itself.
        """
        try:
            async with asyncio.timeout(self._hold_ms / 1000):
                await self._scripts.flush()
        except TimeoutError:
            return

    def abandon(self) -> None:
        """Renew nothing any more: what is still held expires."""
        self._held.clear()
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _amnesia_ms(self, interval_ms: int, cap: int) -> float:
        # A server that comes back may have forgotten the last it was told, starts still to come
        # included; until those are past for certain, nobody goes out on its word.
        since = self._clock() - self._scripts.lost_at
        return max(interval_ms * (cap + 1) - since * 1000, 0)

    def _hold(self, member: str, domain: str, now: float) -> None:
        self._held[member] = (domain, now)
        if self._renewal is None:
            self._schedule_renewal()

    def _schedule_renewal(self) -> None:
        loop = asyncio.get_running_loop()
        self._renewal = loop.call_later(self._hold_ms / 3000, self._renew_held)

    def _renew_held(self) -> None:
        self._renewal = None
        now = self._clock()
        for member, (domain, renewed) in self._held.items():
            if (now - renewed) * 1000 > self._hold_ms / 4:
                self._scripts.call(self._renew, keys_of(domain), member, self._hold_ms)
                self._held[member] = (domain, now)
        if self._held:
            self._schedule_renewal()
