"""The reservation of starts on a domain, kept in Redis for the whole fleet."""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawlproj.politeness.pace import LATE_FREE_MS, LATEST_MS
from crawlproj.politeness.server_clock import ServerClock
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.scripts import Scripts

PREFIX = "downloader:domain_runtime:"
_RESTS = 2  # what `reserve` says of a domain that rests


def keys_of(domain: str) -> tuple[str, str]:
    """Return the keys of a domain, given by its host key: what is known, and who is in flight.

    The braces keep the second in the cluster slot of the first, whose name is a contract.
    """
    key = PREFIX + domain
    return key, f"{{{key}}}:in_flight"


def _keys(domain: str) -> tuple[str, str, str, str]:
    """Return those, and who starts and who was refused, in the same slot."""
    key, in_flight = keys_of(domain)
    return key, in_flight, f"{{{key}}}:starting", f"{{{key}}}:waiting"


@dataclass(frozen=True, slots=True)
class Grant:
    """A start that is reserved, and a place among the domain's requests in flight."""

    domain: str
    member: str
    start_ms: int  #: on the server's clock
    interval_ms: int
    due: float  #: monotonic; the reserved start is not before this
    sure: float  #: monotonic; nor is it after this
    latest_ms: float  #: how long after its time it may still happen
    shared: bool  #: others may start before its place is given back; they wait to hear of its start


@dataclass(frozen=True, slots=True)
class Busy:
    """No start could be reserved: too many in flight, others' turn, or the wait would be too long."""

    retry_ms: float  #: asking earlier is of no use
    known: bool  #: asking then is; else a place has to become free, which nobody can foresee
    rests: bool = False  #: the domain asked to be left alone for so long


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
        self._rest = script(__package__, "rest", allow_oom=True)
        self._server_clock = ServerClock()
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
        latest_ms: float = LATEST_MS,
    ) -> Grant | Busy:
        """Reserve the next start that keeps *interval_ms* from the one before it.

        *max_wait_ms* refuses a start further away. *latest_ms* is how long after its time the start may
        still happen: the next one waits that long for news of it, see `started` and `release`.
        """
        most = -1 if max_wait_ms is None else max_wait_ms
        while True:
            asked = self._clock()
            member = f"{self._prefix}:{next(self._numbers)}"
            try:
                reply: list[int] = await self._scripts.call(
                    self._reserve,
                    _keys(domain),
                    *(member, interval_ms, source, cap, self._hold_ms, self._keep_ms, latest_ms),
                    *(self._amnesia_ms(interval_ms), most),
                )
            except BaseException:
                # It may have been granted all the same. Taking out what is not there does no harm.
                self._scripts.call(self._release, _keys(domain), member, 0, interval_ms, -1, 0)
                raise
            # Asked before an outage and answered after it: by a server that may have forgotten.
            if self._scripts.lost_at < asked:
                break
            if reply[0]:
                self._scripts.call(self._release, _keys(domain), member, reply[3], interval_ms, -1, 0)
        granted, server_us, wait_us, more = reply
        self._server_clock.note(server_us / 1e6, asked, self._clock())
        if not granted:
            return Busy(wait_us / 1000, bool(more), more == _RESTS)
        self._hold(member, domain, asked)
        due, sure = self._server_clock.ours((server_us + wait_us) / 1e6)
        return Grant(domain, member, more, interval_ms, due, sure, latest_ms, cap > 1 and interval_ms > 0)

    def started(self, grant: Grant, late_ms: float) -> None:
        """Tell the fleet that the request went out, at most *late_ms* after its time.

        Only where others may start before it comes back: else `release` is soon enough.
        """
        if grant.shared and grant.member in self._held:
            self._tell(grant, late_ms, under_way=True)

    def release(self, grant: Grant, *, late_ms: float = 0, unused: bool = False) -> None:
        """Give the place back, without waiting for it; more than once does no harm.

        *late_ms* says how long after its reserved start the request went out, at most, so that the
        next one keeps its distance from that; *unused* that it never did.
        """
        if self._held.pop(grant.member, None) is not None:
            self._tell(grant, None if unused else late_ms, under_way=False)

    def _tell(self, grant: Grant, late_ms: float | None, *, under_way: bool) -> None:
        late = -1 if late_ms is None else max(math.ceil(late_ms - LATE_FREE_MS), 0)
        arguments = grant.member, grant.start_ms, grant.interval_ms, late, int(under_way)
        self._scripts.call(self._release, _keys(grant.domain), *arguments)

    def rest(self, domain: str, milliseconds: int) -> None:
        """Leave a domain alone for so long; whoever asks for a start meanwhile is refused."""
        self._scripts.call(self._rest, (PREFIX + domain,), milliseconds)

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

    def _amnesia_ms(self, interval_ms: int) -> float:
        # A server that comes back may have forgotten the last it was told, a start still to come
        # included; until that is past for certain, nobody goes out on its word.
        since = self._clock() - self._scripts.lost_at
        return max(2 * interval_ms + LATEST_MS - since * 1000, 0) if interval_ms else 0

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
