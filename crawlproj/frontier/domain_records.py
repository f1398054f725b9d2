"""What the scheduler knows of domains, over all crawls: `scheduler:domain_runtime:<domain>`.

For people and for other programs; the frontier itself does not read it. The scheduler alone writes it, as the
downloader alone writes `downloader:domain_runtime:<domain>`, and nobody keeps the two in step: one says what
was handed out, the other what went on the wire. A domain is a queue, by its name: the host key, unless a
crawl assigns its URLs otherwise.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crawlproj.exceptions import Refused
from crawlproj.frontier.partition import CHUNK
from crawlproj.later import Later
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.records import HostView
    from crawlproj.scripts import Argument, Scripts

PREFIX = "scheduler:domain_runtime:"
SOON = 5.0  # seconds: a page more or less is no news
KEEP_SECONDS = 600.0  # how long a domain is remembered that nobody asks for

Noted = tuple[int, int, str]  # leases, interval, source


class DomainRecords:
    """Notes, now and then, what has become of the domains that this worker leases from.

    *hold_seconds*: how long a crawl's leases count after the last of its workers was heard of.
    """

    def __init__(self, frontier: Frontier, scripts: Scripts, *, crawl: str, hold_seconds: float) -> None:
        self._frontier = frontier
        self._scripts = scripts
        self._crawl = crawl
        self._hold_seconds = hold_seconds
        self._note = script(__package__, "note_domains")
        self._leased: dict[str, float] = {}  # domain -> when it was leased from last, monotonic
        self._open: dict[str, tuple[Noted, float]] = {}  # those with leases -> what was noted, and when
        self._later = Later(self._send, seconds=SOON, what="noting what the scheduler knows of domains")

    def leased(self, domain: str) -> None:
        """Take note of a lease."""
        self._leased[domain] = time.monotonic()
        self._later.soon()

    async def close(self, seconds: float) -> None:
        """Note how things stand, if that takes no longer than *seconds*."""
        if self._open:
            self._later.soon()
        await self._later.close(seconds)

    async def _send(self) -> None:
        leased, self._leased = self._leased, {}
        names = list({**self._open, **leased})
        for start in range(0, len(names), CHUNK):
            some = names[start : start + CHUNK]
            try:
                views = {view.host: view for view in await self._frontier.look(some)}
            except Refused:  # the run has been sealed meanwhile
                views = {}
            now = time.monotonic()
            notes = {}
            for name in some:
                note = self._news(name, views.get(name), leased.get(name), now)
                if note is not None:
                    notes[PREFIX + name] = note
            await self._write(notes)
        if self._open:
            self._later.soon()

    def _news(
        self, name: str, view: HostView | None, leased: float | None, now: float
    ) -> Sequence[Argument] | None:
        """Return what is to be written of a domain, or None where that is written already."""
        count = 0 if view is None else view.in_flight
        noted = (0, 0, "") if view is None else (count, view.min_interval_ms, view.interval_source)
        before, at = self._open.pop(name, (None, 0.0))
        if count:
            self._open[name] = (noted, now)
        if leased is None and noted == before and now - at < self._hold_seconds / 3:
            self._open[name] = (noted, at)
            return None
        ago = "" if leased is None else round((now - leased) * 1000)
        if view is None:
            return (ago, 0, "", "", 0, 0)
        return (ago, *noted, view.next_due_ms, view.backs_off_ms)

    async def _write(self, notes: Mapping[str, Sequence[Argument]]) -> None:
        if not notes:
            return
        if self._scripts.are_together(*notes):
            await self._call(notes)
            return
        for key, note in notes.items():
            await self._call({key: note})

    async def _call(self, notes: Mapping[str, Sequence[Argument]]) -> None:
        hold = max(self._hold_seconds * 2, SOON * 4)
        flat = [part for note in notes.values() for part in note]
        times = (round(hold * 1000), round(max(KEEP_SECONDS, hold) * 1000))
        await self._scripts.call(self._note, tuple(notes), self._crawl, *times, *flat)
