"""Scrapy's scheduler over the frontier: leases instead of a queue that forgets what it hands out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from crawlproj.crawls.notes import TARGETS
from crawlproj.exceptions import BadUrl, MissingComponent, Refused, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.canonical import host_key, normalise
from crawlproj.frontier.domain_records import DomainRecords
from crawlproj.frontier.feed import Feed
from crawlproj.frontier.records import Outcome
from crawlproj.frontier.requests import to_request
from crawlproj.items import Lease, Visit
from crawlproj.pages.known import known_content
from crawlproj.pages.revisit import Schedule
from crawlproj.redaction import without_login
from crawlproj.revisit import Revisit, wishes
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from crawlproj.frontier.entries import Entry, Stored
    from crawlproj.frontier.records import Grant
    from crawlproj.pages.known import Known

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # how long another worker's news may take to reach an idle one
CLOSE_SECONDS = 10.0  # what closing may take when Redis is away; the lease time covers the rest
BACKLOG = 2  # how often as many pages as may be in flight may wait to be parsed and stored
STORED_AT_ONCE = 64  # pages that the store commits together
ROOM = 1_000  # start requests that may wait here while Redis is slower than the spider
START_SECONDS = 5.0  # for how long known pages wait for start requests to be first

#: Makes the engine ask for requests at once instead of at its next 5-second heartbeat.
WAKE = Request("data:,wake", dont_filter=True)


class FrontierScheduler(BaseScheduler):
    """Hands out what the frontier leases to this worker, fetched ahead in the background.

    Settings: MAX_CONCURRENT_COUNT, LEASE_SECONDS, MAX_ATTEMPTS, REVISIT_*.
    Stats: scheduler/enqueued, scheduler/dequeued, dupefilter/filtered, frontier/filtered, frontier/refused,
    revisit/queued, revisit/not_due, revisit/unwanted.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._config = worker.config
        self._spider: Spider
        self._ready: deque[tuple[Grant, Lease, Stored, Known | None]] = deque()
        self._again: deque[Request] = deque()  #: the same lease once more, for Scrapy's own retries
        self._pending: list[Entry] = []  #: accepted, not in Redis yet
        self._scheduling: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._starved = True
        self._asked = False  #: whether the frontier has answered yet
        self._through = False  #: whether nothing was left when it answered last
        self._closing = False
        self._ahead: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._feed: Feed | None = None
        self._domains: DomainRecords | None = None
        self._filling: Revisit | None = None  #: brings in what earlier runs know
        self._started = asyncio.Event()  #: the spider has no more start requests

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it; it works once the lifecycle extension has claimed the crawl."""
        return cls(crawler, Worker.of(crawler))

    # --- what Scrapy calls ----------------------------------------------------------------------

    def open(self, spider: Spider) -> None:
        """Check that its companions are there."""
        if self._worker.pages is None:
            raise MissingComponent("SCHEDULER needs middlewares.page.PageMiddleware in SPIDER_MIDDLEWARES")
        self._spider = spider
        self._worker.after_finish.append(self._wanted.set)
        self._feed = Feed.of(spider)

    def start(self) -> None:
        """Begin to lease; called when the crawl has been claimed and the engine runs."""
        worker = self._worker
        self._domains = DomainRecords(
            worker.frontier,
            worker.scripts,
            crawl=worker.crawl.frontier,
            hold_seconds=self._config.lease_seconds,
        )
        self._ahead = self._run(self._fetch_ahead())
        self._tasks = [self._run(self._renew())]
        if worker.crawl.run > 1:
            self._filling = Revisit(
                worker.database.another(f"{worker.id} revisit"),
                worker.frontier,
                worker.codec,
                worker.crawl,
                most=Schedule.from_config(self._config).most,
                wants=wishes(self._crawler, self._spider, worker.admission),
                starts=self._starts_sent,
                seen_cache=self._config.seen_cache,
            )
            self._tasks.append(self._run(self._fill(self._filling)))
        if self._feed is not None:
            self._tasks.append(self._run(self._read_feed()))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._task_ended)
        return task

    def close(self, reason: str) -> Deferred[None]:
        """Send what is pending and give back what was not started."""
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        """Say whether there is work for this worker, now or later, or for any other."""
        if self._ready or self._again or self._pending or self._worker.visits:
            return True
        if not self._asked:
            return True
        figures = self._worker.frontier.figures
        if figures.closed:
            return False
        if figures.stop and not figures.paused:
            return figures.leased > 0
        # A crawl that is to pause at its finish does so when it is asked for more, and says so then.
        return not (figures.idle and self._through)

    def enqueue_request(self, request: Request) -> bool:
        """Take a request for the frontier. False: it was seen before, or cannot be kept."""
        if request is WAKE:
            return True
        lease = request.meta.get("lease")
        visit = self._worker.visits.get(lease.token) if isinstance(lease, Lease) else None
        if visit is not None and not visit.done:
            if _times(request, "redirect_times") > visit.redirects:
                return self._redirect(request, visit)
            if _times(request, "retry_times") > visit.retries:
                visit.retries = _times(request, "retry_times")
                self._again.append(request)
                return True
        start = bool(request.meta.get("is_start_request")) and visit is None
        return self._take(request, forced=request.dont_filter and not start, seed=start)

    def next_request(self) -> Request | None:
        """Return a request that is due, if one has been fetched ahead and there is room for it."""
        self._starved = True
        if self._worker.stopping or not self._asked:
            return None
        if len(self._crawler.engine.downloader.active) >= self._config.max_concurrent_count:
            return None
        if len(self._worker.visits) >= BACKLOG * self._config.max_concurrent_count + STORED_AT_ONCE:
            return None  # the store does not keep up
        if self._again:  # started before, so a stop lets it finish
            return self._again.popleft()
        if self._worker.draining:
            return None
        if len(self._ready) * 2 <= self._config.max_concurrent_count:
            self._wanted.set()
        while self._ready:
            request = self._issue(*self._ready.popleft())
            if request is not None:
                self._starved = False
                self._crawler.stats.inc_value("scheduler/dequeued")
                return request
        return None

    @property
    def holds_leases(self) -> bool:
        """Say whether leases of this worker have not become requests yet."""
        return bool(self._ready or self._again)

    def no_more_starts(self) -> None:
        """Note that the spider has yielded all its start requests."""
        self._started.set()

    async def room(self) -> None:
        """Wait while too many requests are on their way to Redis."""
        while len(self._pending) > ROOM and self._scheduling is not None:
            await asyncio.wait([self._scheduling])

    # --- in -------------------------------------------------------------------------------------

    def _take(self, request: Request, *, forced: bool, seed: bool) -> bool:
        entry = self.entry_of(request, forced=forced, seed=seed)
        if entry is None:
            return False
        if entry.fingerprint in self._worker.seen and not forced:
            self._crawler.stats.inc_value("dupefilter/filtered")
            return False
        self._pending.append(entry)
        self._crawler.stats.inc_value("scheduler/enqueued")
        if self._scheduling is None or self._scheduling.done():
            self._scheduling = self._worker.spawn(self._schedule())
        return True

    def entry_of(
        self,
        request: Request,
        *,
        page: Stored | None = None,
        forced: bool = False,
        head: bool = False,
        slot: str | None = None,
        seed: bool = False,
        embed_hops: int = 1,
    ) -> Entry | None:
        """Return the entry of a request, or None, said loudly, if it cannot be kept.

        Tag and login are inherited from the *page* that it was found on; a *seed* was found on none.
        """
        if (why := self._refusal(request)) is not None:
            logger.debug("Filtered %s: %s", request, why)
            self._crawler.stats.inc_value("frontier/filtered")
            return None
        try:
            return self._worker.codec.encode_request(
                request,
                self._spider,
                page=page,
                seed=seed,
                forced=forced,
                head=head,
                drop_slot=slot,
                embed_hops=embed_hops,
            )
        except (BadUrl, UnserialisableRequest) as exc:
            logger.error("Request refused, nothing is marked seen: %s", exc)
            self._crawler.stats.inc_value("frontier/refused")
            return None

    def _refusal(self, request: Request) -> str | None:
        """Return why the crawl's lists and its depth keep a request out, if they do."""
        admission = self._worker.admission
        if admission.is_open:
            return None
        depth, embed = _times(request, "depth"), bool(request.meta.get("embed"))
        return admission.refusal(request.url, depth, embed=embed)

    async def _schedule(self) -> None:
        try:
            while self._pending:
                await self._may_begin()
                batch = await self._worker.codec.assign(self._pending[:500])
                epoch, over = self._worker.seen.epoch, self._worker.frontier.figures.over
                added = await self._worker.frontier.schedule(batch)
                if epoch != self._worker.seen.epoch:
                    continue  # a new connection: whether the server still has what went before, nobody knows
                del self._pending[: len(batch)]
                if over == self._worker.frontier.figures.over:  # else some are not seen: no room was left
                    for entry in batch:
                        self._worker.seen.add(entry.fingerprint)
                if len(batch) > added:
                    self._crawler.stats.inc_value("dupefilter/filtered", len(batch) - added)
                self._wanted.set()
        except Refused as exc:
            logger.error("%d requests are too late: %s", len(self._pending), exc)
            self._pending.clear()

    def _redirect(self, request: Request, visit: Visit) -> bool:
        """End the source as redirected; the target enters its own host's queue, at the head."""
        codec = self._worker.codec
        chain = {codec.canonical(normalise(url)) for url in request.meta.get("redirect_urls", ())}
        start = request.meta.get("is_start_request")
        if request.dont_filter and start:
            request = request.replace(dont_filter=False, meta={**request.meta, "allow_offsite": True})
        request = request.replace(errback=visit.errback)
        slot = request.meta.get("download_slot")
        entry = self.entry_of(
            request, page=visit.entry, head=True, slot=slot, embed_hops=visit.lease.embed_hops
        )
        target = without_login(request.url)
        if entry is None:
            why = self._refusal(request) or "which cannot be kept"
            visit.detail = f"redirected to {target[:200]}, {why}"
        else:
            itself = codec.canonical(entry.url) in chain
            if itself or request.dont_filter:
                entry = entry.forcibly()
        assert self._worker.pages is not None
        self._worker.pages.redirected(visit, target, entry)
        return True

    async def _read_feed(self) -> None:
        """Move entries of a scrapy-redis start-URL key into the frontier."""
        assert self._feed is not None
        await self._may_begin()
        while True:
            moved = await self._feed.move(self._worker.frontier, self._worker.codec, self._feed_entry)
            if moved:
                self._wanted.set()
            await asyncio.sleep(0 if moved else POLL_SECONDS)

    def _feed_entry(self, request: Request) -> Entry | None:
        return self.entry_of(request, forced=request.dont_filter, seed=True)

    # --- what earlier runs know -----------------------------------------------------------------

    async def _fill(self, filling: Revisit) -> None:
        try:
            await filling.run()
            for name, count in filling.done.items():
                self._crawler.stats.inc_value(f"revisit/{name}", count)
            self._wanted.set()
        finally:
            await filling.close()

    async def _may_begin(self) -> None:
        """Wait until what is not due is known to the frontier: no link or start request may lead to it."""
        if self._filling is not None:
            await self._filling.marked.wait()

    async def _starts_sent(self) -> None:
        """Wait until the start requests are in the frontier; for a spider that has ever more, for a while."""
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._started.wait()
                while self._scheduling is not None and not self._scheduling.done():
                    await asyncio.wait([self._scheduling])

    # --- out ------------------------------------------------------------------------------------

    async def _fetch_ahead(self) -> None:
        worker, frontier = self._worker, self._worker.frontier
        await self._may_begin()
        while not self._closing:
            self._wanted.clear()
            want = (
                0 if worker.draining or worker.cut else self._config.max_concurrent_count - len(self._ready)
            )
            expires = time.monotonic() + self._config.lease_seconds
            granted = await frontier.next(worker.id, want, self._config.lease_seconds)
            worker.frontier_gone = granted.gone
            self._asked = True
            self._through = frontier.figures.idle
            if granted.grants:
                await self._accept(granted.grants, expires)
            if (self._ready or self._again or frontier.figures.idle) and self._starved and not self._closing:
                self._crawler.engine.crawl(WAKE)
            # What is leased already counts as a target, and a limit on these is exact.
            if frontier.figures.stop not in {"", TARGETS}:
                worker.draining = True
            if self._ready and (worker.draining or frontier.figures.paused):
                await self._give_back()
            pause = POLL_SECONDS if granted.wait_ms is None else min(granted.wait_ms / 1000, POLL_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause, 0.001)):
                    await self._wanted.wait()

    async def _accept(self, grants: list[Grant], expires: float) -> None:
        assert self._domains is not None
        for grant in grants:
            self._domains.leased(grant.host)
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
            request = to_request(stored, self._spider)
        except UndecodableEntry as exc:
            self._worker.spawn(self._bury(grant, exc))
            return None
        visit = Visit(
            lease=lease,
            entry=stored,
            held_until=lease.expires_at,
            errback=request.errback,
            redirects=_times(request, "redirect_times"),
            retries=_times(request, "retry_times"),
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

    async def _renew(self) -> None:
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

    async def _give_back(self) -> None:
        tokens = [grant.token for grant, *_ in self._ready]
        self._ready.clear()
        await self._worker.give_back(tokens)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._worker.give_up("scheduler_failed", error)

    async def _close(self) -> None:
        self._closing = True
        self._wanted.set()
        if self._filling is not None and not self._filling.marked.is_set():
            self._pending.clear()  # they may not enter yet, and come again with the next worker
            self._filling.marked.set()
        if self._worker.is_open:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._give_all_back()
            except TimeoutError:
                logger.warning("Redis is away: leases are not given back but run out by themselves")
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _give_all_back(self) -> None:
        if self._ahead is not None:
            # Not cancelled: what the server grants to a call that nobody waits for would be lost for a lease.
            await self._ahead
        if self._scheduling is not None:
            await asyncio.wait([self._scheduling])
        await self._give_back()
        await self._worker.give_back([*self._worker.visits])
        if self._domains is not None:
            await self._domains.close(CLOSE_SECONDS)


def _times(request: Request, name: str) -> int:
    value: Any = request.meta.get(name, 0)
    return value if isinstance(value, int) else 0
