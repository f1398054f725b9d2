"""Leases of this worker that have not become requests yet: fetched ahead, renewed, given back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from crawlproj.crawls.notes import TARGETS
from crawlproj.exceptions import UndecodableEntry
from crawlproj.frontier.canonical import host_key
from crawlproj.frontier.domain_records import DomainRecords
from crawlproj.frontier.records import Outcome
from crawlproj.frontier.requests import meta_count, to_request
from crawlproj.items import Lease, Visit
from crawlproj.pages.known import known_content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from crawlproj.frontier.entries import Stored
    from crawlproj.frontier.records import Grant
    from crawlproj.pages.known import Known
    from crawlproj.worker import Worker

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # how long another worker's news may take to reach an idle one


class Lookahead:
    """Asks the frontier for leases before the engine asks for requests. *wake* has the engine ask at once."""

    def __init__(self, crawler: Crawler, worker: Worker, wake: Callable[[], None]) -> None:
        self.spider: Spider
        self.starved = True  #: whether the engine went away empty-handed
        self.asked = False  #: whether the frontier has answered yet
        self.through = False  #: whether nothing was left when it answered last
        self._crawler = crawler
        self._worker = worker
        self._config = worker.config
        self._wake_engine = wake
        self._ready: deque[tuple[Grant, Lease, Stored, Known | None]] = deque()
        self._again: deque[Request] = deque()  #: the same lease once more, for Scrapy's own retries
        self._wanted = asyncio.Event()
        self._closing = False
        self._domains: DomainRecords | None = None

    @property
    def holds_leases(self) -> bool:
        """Say whether there is anything here."""
        return bool(self._ready or self._again)

    def wake(self) -> None:
        """Ask the frontier now: something has changed."""
        self._wanted.set()

    def once_more(self, request: Request) -> None:
        """Take a request back whose lease is still held."""
        self._again.append(request)

    def next(self) -> Request | None:
        """Return a request, which is under way from now on; what starts a second time comes first."""
        if self._again:  # started before, so a stop lets it finish
            return self._again.popleft()
        if self._worker.draining:
            return None
        if len(self._ready) * 2 <= self._config.max_concurrent_count:
            self._wanted.set()
        while self._ready:
            request = self._issue(*self._ready.popleft())
            if request is not None:
                self.starved = False
                self._crawler.stats.inc_value("scheduler/dequeued")
                return request
        return None

    async def fetch(self, may_begin: Callable[[], Awaitable[None]]) -> None:
        """Keep leases at hand until closed."""
        worker, frontier = self._worker, self._worker.frontier
        self._domains = DomainRecords(
            frontier, worker.scripts, crawl=worker.crawl.frontier, hold_seconds=self._config.lease_seconds
        )
        await may_begin()
        while not self._closing:
            self._wanted.clear()
            full = worker.draining or worker.cut
            want = 0 if full else self._config.max_concurrent_count - len(self._ready)
            expires = time.monotonic() + self._config.lease_seconds
            granted = await frontier.next(worker.id, want, self._config.lease_seconds)
            worker.frontier_gone = granted.gone
            self.asked = True
            self.through = frontier.figures.idle
            if granted.grants:
                await self._accept(self._domains, granted.grants, expires)
            if (self.holds_leases or frontier.figures.idle) and self.starved and not self._closing:
                self._wake_engine()
            # What is leased already counts as a target, and a limit on these is exact.
            if frontier.figures.stop not in {"", TARGETS}:
                worker.draining = True
            if self._ready and (worker.draining or frontier.figures.paused):
                await self.give_back()
            pause = POLL_SECONDS if granted.wait_ms is None else min(granted.wait_ms / 1000, POLL_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause, 0.001)):
                    await self._wanted.wait()

    async def _accept(self, domains: DomainRecords, grants: list[Grant], expires: float) -> None:
        for grant in grants:
            domains.leased(grant.host)
        read: list[tuple[Grant, Lease, Stored]] = []
        for grant in grants:
            lease = self._lease(grant, expires)
            try:
                read.append((grant, lease, self._worker.codec.decode(grant.host, grant.entry)))
            except UndecodableEntry as exc:
                await self._bury(grant, exc)
        await self._worker.sampler.meet(host_key(stored.wire) for _, _, stored in read)
        known = await self._known([stored.key for _, _, stored in read])
        for ask in self._worker.before_issue:
            await ask()
        self._ready.extend((grant, lease, stored, known.get(stored.key)) for grant, lease, stored in read)

    def _lease(self, grant: Grant, expires: float) -> Lease:
        """Return a lease with the knobs of its host, as of now."""
        knobs = {**self._worker.frontier.knobs, **grant.knobs}
        interval = grant.interval_ms
        if interval is None and knobs["interval_ms"] != self._config.min_interval_ms:
            interval = int(knobs["interval_ms"])  # the crawl's has been turned
        return Lease(
            token=grant.token,
            host=grant.host,
            attempts=grant.attempts,
            min_interval_ms=interval,
            in_flight=int(knobs["in_flight"]),
            max_attempts=int(knobs["max_attempts"]),
            max_outlinks=int(knobs["max_outlinks"]),
            embed_hops=int(knobs["embed_hops"]),
            expires_at=expires,
        )

    async def _known(self, keys: list[bytes]) -> dict[bytes, Known]:
        """Return what earlier runs stored of pages; in a crawl's first run nobody is asked."""
        crawl = self._worker.crawl
        if crawl.run == 1 or not keys:
            return {}
        return await known_content(self._worker.database, crawl.name, keys)

    def _issue(self, grant: Grant, lease: Lease, stored: Stored, known: Known | None) -> Request | None:
        try:
            request = to_request(stored, self.spider)
        except UndecodableEntry as exc:
            self._worker.spawn(self._bury(grant, exc))
            return None
        visit = Visit(
            lease=lease,
            entry=stored,
            held_until=lease.expires_at,
            errback=request.errback,
            redirects=meta_count(request, "redirect_times"),
            retries=meta_count(request, "retry_times"),
            has_content=known is not None,
            content_size=known.size if known is not None else 0,
        )
        self._worker.visits[lease.token] = visit
        request.meta["lease"] = lease
        # A 304 that could not be used is asked for again without.
        if known is not None and known.validators and lease.attempts == 0:
            request.meta["validators"] = known.validators
        assert self._worker.pages is not None
        request.errback = partial(self._worker.pages.failed, request.errback)
        return request

    async def _bury(self, grant: Grant, error: UndecodableEntry) -> None:
        logger.error("%s", error)
        self._crawler.stats.inc_value("frontier/unreadable")
        await self._worker.frontier.finish(grant.token, Outcome.UNREADABLE)

    async def renew(self) -> None:
        """Renew the leases at hand and under way, until cancelled."""
        worker = self._worker
        while True:
            await asyncio.sleep(self._config.lease_seconds / 3)
            tokens = [*worker.visits, *(grant.token for grant, *_ in self._ready)]
            if not tokens:
                continue
            until = time.monotonic() + self._config.lease_seconds
            lost = set(await worker.frontier.renew(worker.id, tokens, self._config.lease_seconds))
            for token in tokens:
                if (visit := worker.visits.get(token)) is not None:
                    visit.held_until = 0.0 if token in lost else until
            if lost:
                self._ready = deque(each for each in self._ready if each[0].token not in lost)

    async def give_back(self) -> None:
        """Give back what is at hand and was not started."""
        tokens = [grant.token for grant, *_ in self._ready]
        self._ready.clear()
        await self._worker.give_back(tokens)

    def close(self) -> None:
        """Fetch no more; `fetch` ends."""
        self._closing = True
        self._wanted.set()

    async def leave_domains(self, seconds: float) -> None:
        """Take this worker out of the records of its domains."""
        if self._domains is not None:
            await self._domains.close(seconds)
