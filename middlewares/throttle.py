"""Every request keeps its distance from the one before it on the same host, in the whole fleet."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawlproj.downloads.errors import status_of
from crawlproj.exceptions import MissingComponent
from crawlproj.frontier.canonical import host_key, normalise
from crawlproj.items import Lease
from crawlproj.pages.failure import HOST_STATUSES
from crawlproj.pages.retry_after import asked_wait_ms
from crawlproj.politeness.closing import ClosingTime
from crawlproj.politeness.pace import INTERVAL, MAX_WAIT, Pace, pace
from crawlproj.politeness.runtime import DomainRuntime, Grant
from crawlproj.politeness.turns import Turns
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawlproj.items import Visit

MET = 10_000  # hosts a worker remembers to have a way to
SENDING = 5  # rounds of the event loop that a request takes from here to the wire; libcurl needs 3 or 4
LEAVING = 0.02  # seconds that an answer takes from the wire to here
PLACE = "throttle_place"  #: meta: the place a request has among those in flight, while it has one


class ThrottleMiddleware:
    """Let a request go out when its host's interval has passed and a place there is free.

    It stands nearest the wire, so that nothing passes it by: pages, robots.txt, redirects, retries and
    what is fetched through the engine. The host is that of the URL which really goes out. One that asks to be
    left alone is, by everybody: requests to it raise HostRests meanwhile.

    Settings: MIN_INTERVAL_MS, HOST_MAX_IN_FLIGHT, LEASE_SECONDS, CRAWL_DELAY_MAX_SECONDS.
    Meta: throttle_max_wait_ms (raise TooSoon instead of waiting longer), throttle_interval.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._worker = Worker.of(crawler)
        self._config = self._worker.config
        self._closing = ClosingTime(self._worker.sends_home)
        # member -> grant, how late it went out; None while it has not
        self._places: dict[str, tuple[Grant, float | None]] = {}
        self._met: dict[str, None] = {}
        self._runtime: DomainRuntime | None = None
        self._turns: Turns | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and listen for requests that come back without passing the middlewares."""
        self = cls(crawler)
        # A download that somebody gave up waiting for still ends here, and only here.
        crawler.signals.connect(self.request_left_downloader, signal=signals.request_left_downloader)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    async def process_request(self, request: Request) -> None:
        """Wait for the request's turn."""
        if not request.url.startswith(("http://", "https://")):
            return
        self._give_back(request)  # sent round again by a middleware behind this one
        wire = normalise(request.url)
        domain = host_key(wire)
        visit = self._worker.visit_of(request)
        turns = self._turns or self._open()
        asked = domain, self._pace(request, domain, visit), self._cap(request, domain)
        most = request.meta.get(MAX_WAIT)
        wait = turns.take(*asked) if most is None else turns.take_soon(*asked, most)
        grant = await self._closing.guard(wait)
        self._places[grant.member] = (grant, None)
        self._send(grant.member, SENDING)
        request.meta[PLACE] = grant.member
        if visit is not None:
            visit.started = time.monotonic()

    def process_response(self, request: Request, response: Response) -> Response:
        """Give the place back and note what the wire said, whatever becomes of the response."""
        if response.status in HOST_STATUSES:
            self._rest(request, response)
        self._give_back(request)
        visit = self._worker.visit_of(request)
        if visit is not None:
            visit.http_status = response.status
            visit.ended = time.monotonic()
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Give the place back, and note what the wire had said when it went wrong."""
        self._give_back(request)
        visit = self._worker.visit_of(request)
        if visit is not None:
            visit.http_status = status_of(exception)

    def request_left_downloader(self, request: Request) -> None:
        """Give the place back in a moment, also when nobody waits for the answer any more.

        Mostly the answer gets here before, and is looked at first: a host may ask to be left alone.
        """
        member = request.meta.get(PLACE)
        if member is not None:
            asyncio.get_running_loop().call_later(LEAVING, self._left, request, member)

    async def spider_closed(self) -> None:
        """Give every place back, and see to it that Redis has heard of it."""
        if self._turns is None or self._runtime is None:
            return
        for grant, late_ms in self._places.values():
            self._turns.give_back(grant, late_ms=self._lateness_ms(grant, late_ms))
        self._places.clear()
        await self._runtime.flush()
        self._runtime.abandon()

    def _rest(self, request: Request, response: Response) -> None:
        """Leave a host alone that asks for it: all workers and crawls, not only the page that was told."""
        asked = asked_wait_ms(response.status, response.headers, time.time())
        if asked and self._turns is not None:
            most = int(self._config.knobs["retry_delay_max_ms"])
            self._turns.rest(host_key(normalise(request.url)), min(asked, most))

    def _left(self, request: Request, member: str) -> None:
        """Give a place back, unless that is done and the request has gone out again with another one."""
        if request.meta.get(PLACE) == member:
            self._give_back(request)

    def _give_back(self, request: Request) -> None:
        member = request.meta.pop(PLACE, None)
        place = self._places.pop(member, None) if member is not None else None
        if place is not None and self._turns is not None:
            grant, late_ms = place
            if self._is_first(grant.domain):
                # Until there is a way to a host (name, connection, TLS; in a new process the very code
                # for it), nobody knows when a request reaches it: no later than its answer came.
                late_ms = None
            self._turns.give_back(grant, late_ms=self._lateness_ms(grant, late_ms))

    def _send(self, member: str, rounds: int) -> None:
        """Look, when the event loop has come to it, how late a request went out, and say so."""
        place = self._places.get(member)
        if place is None or self._turns is None or not place[0].interval_ms:
            return
        if rounds:
            asyncio.get_running_loop().call_soon(self._send, member, rounds - 1)
            return
        grant = place[0]
        late_ms = self._turns.lateness_ms(grant)
        self._places[member] = (grant, late_ms)
        if grant.domain in self._met:
            self._turns.started(grant, late_ms)

    def _lateness_ms(self, grant: Grant, late_ms: float | None) -> float:
        """Return how late a request went out; of one that is not known to, no later than now."""
        if late_ms is not None or self._turns is None:
            return late_ms or 0.0
        return self._turns.lateness_ms(grant)

    def _is_first(self, domain: str) -> bool:
        """Return whether this worker has not met the host lately, and note that it has now."""
        if domain in self._met:
            return False
        self._met[domain] = None
        if len(self._met) > MET:
            del self._met[next(iter(self._met))]
        return True

    def _pace(self, request: Request, domain: str, visit: Visit | None) -> Pace:
        """Return the interval of the lease if that is for this host, else the default."""
        default_ms = self._config.min_interval_ms
        lease = request.meta.get("lease")
        if isinstance(lease, Lease):
            # Queues may be named by something else than the host: then the leased URL tells.
            same = lease.host == domain or (visit is not None and host_key(visit.entry.url) == domain)
            return pace(lease.min_interval_ms if same else None, default_ms)
        host, interval_ms = request.meta.get(INTERVAL) or (None, None)
        return pace(interval_ms if host == domain else None, default_ms)

    def _cap(self, request: Request, domain: str) -> int:
        """Return how many may be under way: what the lease says if that is for this host."""
        lease = request.meta.get("lease")
        if isinstance(lease, Lease) and lease.host == domain:
            return lease.in_flight
        return self._config.host_max_in_flight

    def _open(self) -> Turns:
        if not self._worker.is_open:
            raise MissingComponent(
                "middlewares.throttle.ThrottleMiddleware needs extensions.lifecycle.LifecycleExtension"
                " in EXTENSIONS"
            )
        self._runtime = DomainRuntime(
            self._worker.scripts,
            hold_ms=round(self._config.lease_seconds * 1000),
            keep_ms=self._config.crawl_delay_max_seconds * 1000,
        )
        self._turns = Turns(self._runtime)
        return self._turns
