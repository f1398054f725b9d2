"""What one process holds of one crawl: connections, the claimed run, the requests under way.

Scrapy builds its components one by one and has no place for what they share; `Worker.of(crawler)`
is that place. It opens when the spider opens and closes after everything else.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from crawlproj import connections, schema
from crawlproj.config import Config
from crawlproj.crawls import lifecycle, notes
from crawlproj.crawls.admission import Admission
from crawlproj.crawls.config import crawl_config, differing
from crawlproj.crawls.grace import STEP_SECONDS
from crawlproj.engine import is_closing, wait_no_longer
from crawlproj.exceptions import CrawlError
from crawlproj.frontier.canonical import host_key
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.seen_cache import SeenCache
from crawlproj.items import Lease
from crawlproj.knobs import LIMITS
from crawlproj.pages.bodies import body_store
from crawlproj.pages.revisit import Schedule
from crawlproj.pages.store import PageStore
from crawlproj.redaction import without_secrets
from crawlproj.results.results import FetchResults
from crawlproj.sampler.sampler import Sampler
from crawlproj.signals import transfers_cut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from crawlproj.crawls.lifecycle import Crawl
    from crawlproj.frontier.entries import Entry
    from crawlproj.items import Visit
    from crawlproj.scripts import Scripts

logger = logging.getLogger(__name__)

CACHE_SECONDS = 2.0  # what a closing worker leaves for what others can do without
GUARD_SECONDS = 5.0  # how long a dead embedded server stays dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a worker's part in a crawl ended, and what the command exits with."""

    exit_code: int
    sealed: bool
    reason: str


class Pages(Protocol):
    """What ends a request that does not come back as a response."""

    def failed(self, original: Callable[..., Any] | None, failure: Failure) -> Any:
        """Serve as the errback of a leased request; *original* is the spider's own."""

    def redirected(self, visit: Visit, url: str, entry: Entry | None) -> None:
        """End *visit*, whose target goes its own way as *entry*."""


class Worker:
    """One process at work on one crawl.

    Attributes are there from `open` on, except `config`, `codec`, `visits` and `tally`.
    """

    redis: connections.Client
    scripts: Scripts
    database: connections.Database  #: for pages
    life: connections.Database  #: for the run's row: a commit that is held up costs no lease
    crawl: Crawl
    frontier: Frontier
    admission: Admission
    store: PageStore
    sampler: Sampler
    results: FetchResults

    _all: ClassVar[WeakKeyDictionary[Crawler, Worker]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler) -> None:
        self.config = Config.from_settings(crawler.settings)
        self.codec = Codec.from_config(self.config)
        self.id = self.config.worker_id
        self.visits: dict[int, Visit] = {}
        self.tally: Counter[str] = Counter()
        self.seen = SeenCache(self.config.seen_cache)
        self.outcome: Outcome | None = None
        self.is_open = False
        self.stopping = False  #: this worker leaves
        self.draining = False  #: the run was stopped: nothing new starts, what runs finishes
        self.frontier_gone = False  #: Redis has it no more, or has it for another run
        self.cut = False  #: what is under way has had its time
        self.reason: str | None = None  #: why this worker asked the engine to close, if it did
        self.error: str | None = None  #: what it could not get over
        #: called after every finished lease; the scheduler and the limits listen
        self.after_finish: list[Callable[[], None]] = []
        #: awaited when the frontier has given leases, before any of them is used; the cookies listen
        self.before_issue: list[Callable[[], Awaitable[None]]] = []
        self.pages: Pages | None = None  #: the page middleware, when it is enabled
        self._bodies = body_store(self.config.body_store)
        self._crawler = crawler
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._embedded = False

    @classmethod
    def of(cls, crawler: Crawler) -> Worker:
        """Return the worker of a crawler. Raises BadSetting the first time, if a setting is wrong."""
        if crawler not in cls._all:
            cls._all[crawler] = cls(crawler)
        return cls._all[crawler]

    async def open(self, spider: Spider) -> None:
        """Reach the servers, claim the crawl, make or join its frontier."""
        addresses = await asyncio.to_thread(self._reach_servers)
        # A server that comes back may have lost its last second, and with it links that it had confirmed.
        self.redis, self.scripts = connections.open_scripts(addresses, on_connect=self.seen.clear)
        self.database = connections.Database(addresses.database_url, name=self.id)
        self.life = self.database.another(f"{self.id} life", says_outages=False)
        try:
            asked = await self._claim(spider)
        except BaseException:
            await self._disconnect()
            raise
        if others := differing(asked, self.crawl.config):
            logger.warning(
                "Crawl %s was created with other arguments (%s): its links are let in as asked for then,"
                " but the spider of this worker is what it has been told now",
                self.crawl.name,
                ", ".join(others),
            )
        self._calm_collector()
        self.is_open = True

    async def _claim(self, spider: Spider) -> dict[str, Any]:
        """Claim the run and set everything up for it; return what it would be if it were made now."""
        # In a thread: a long list of seeds is looked through for secrets.
        asked = await asyncio.to_thread(crawl_config, spider, self._crawler.settings, self.config)
        self.crawl = await lifecycle.claim(
            self.life,
            name=self.config.crawl_name,
            spider=spider.name,
            worker=self.id,
            lease_seconds=self.config.lease_seconds,
            config=asked,
            join_only=self.config.crawl_join,
        )
        try:
            await self._set_up()
        except BaseException:
            with suppress(TimeoutError):  # it runs out by itself
                async with asyncio.timeout(STEP_SECONDS):
                    await lifecycle.release(self.life, self.crawl, self.id)
            raise
        return asked

    async def _set_up(self) -> None:
        """Make or join the claimed run's frontier, open its store."""
        self.admission = Admission.from_config(self.crawl.config)
        self.frontier = Frontier(self.redis, self.scripts, self.crawl.frontier, self.config.partitions)
        await self._join_frontier()
        self.store = PageStore(
            self.database,
            self._bodies,
            crawl=self.crawl,
            worker=self.id,
            under_way=lambda: len(self.visits),
            keeps_links=self.crawl.config.get("recovery_log", True),  # as the run began
            revisits=Schedule.from_config(self.config),
        )
        self.store.start()
        self.sampler = Sampler(
            self.scripts,
            self.frontier,
            queues=self._queues,
            intervals=self.config.language_intervals,
            keep_seconds=self.config.profile_seconds,
        )
        self.results = FetchResults(
            self.scripts,
            partial(self.redis.info, "memory"),
            crawl=self.crawl.name,
            worker=self.id,
            keep_seconds=self.config.fetch_result_seconds,
        )

    async def _join_frontier(self) -> None:
        """Make the frontier, join it, or go on with what the run before has left in it."""
        continues = self.crawl.continues and await self.frontier.exists()
        if continues:
            limits = {name: self.config.knobs[name] for name in LIMITS}
            await self.frontier.reopen(self.crawl.run, limits)
        await self.frontier.create(
            self.config,
            self.codec.fixed(),
            run=self.crawl.run,
            fills=self.crawl.run > 1 and not continues,
        )
        # Whoever wrote the note may have died before it could tell the frontier, or Redis may have lost it.
        # Not so with targets: a worker may have given some back, and in their place as many others start.
        told = await notes.stop_reason(self.life, self.crawl.id)
        if told not in {None, notes.TARGETS} and not (await self.frontier.refresh()).stop:
            await self.frontier.stop(str(told))

    def _calm_collector(self) -> None:
        """Let Python look for cycles less often, and not among what stays for the whole crawl."""
        if self.config.gc_threshold:
            gc.collect()
            gc.freeze()
            gc.set_threshold(self.config.gc_threshold, 20, 50)

    def _reach_servers(self) -> connections.Addresses:
        self._bodies.check()
        addresses = connections.ensure_servers(self.config)
        self._embedded = addresses.redis_embedded or addresses.database_embedded
        with connections.connect_database(addresses.database_url) as connection:
            if addresses.database_embedded:
                schema.migrate(connection)
            else:
                schema.require(connection)
        return addresses

    async def note(
        self,
        namespace: str,
        message: str,
        fields: Mapping[str, Any] | None = None,
        *,
        once: bool = False,
    ) -> bool:
        """Write a note on the run: anything that a person should know of it. *namespace* is its kind.

        *once*: one of that kind is enough for the run, whoever writes it. False when there is one already.
        Waits for a PostgreSQL that is away.
        """
        return await notes.write(
            self.life,
            self.crawl.id,
            namespace=namespace,
            message=message,
            fields=fields or {},
            once=once,
        )

    def visit_of(self, request: Request) -> Visit | None:
        """Return what is known of a leased request under way; None for any other."""
        lease = request.meta.get("lease")
        return self.visits.get(lease.token) if isinstance(lease, Lease) else None

    async def keep_servers(self) -> None:
        """Start an embedded server again that has died under us, until cancelled."""
        while self._embedded:
            await asyncio.sleep(GUARD_SECONDS)
            try:
                await asyncio.to_thread(connections.ensure_servers, self.config)
            except CrawlError as exc:
                logger.warning("%s", exc)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run *work* beside the crawl; `settled` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.give_up("worker_failed", error)

    def watch(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *work* until somebody cancels it; nobody waits for it, but its error is heard."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    async def settled(self) -> None:
        """Wait until nothing that was spawned is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def give_up(self, reason: str, error: BaseException) -> None:
        """End this worker's part for an error that is nobody's page's fault; leases are given back."""
        logger.error("The worker stops (%s): %s", reason, error, exc_info=error)
        self.error = self.error or without_secrets("error", str(error))[:500]
        self.close_spider(reason)

    def close_spider(self, reason: str) -> None:
        """Ask the engine to close, once."""
        if not self.stopping:
            self.stopping = True
            self.reason = reason
            # Not spawned: closing waits for what is.
            self._closing = asyncio.get_running_loop().create_task(
                self._crawler.engine.close_spider_async(reason=reason)
            )

    def all_sent(self) -> bool:
        """Say whether every request under way has gone out, and none waits for its turn."""
        return all(visit.started for visit in self.visits.values())

    async def give_back(self, tokens: Sequence[int]) -> None:
        """Give leases back that have come to nothing: for others, but for what has had its time here."""
        again = not self.cut or is_closing(self._crawler)
        await self.frontier.release(self.id, tokens, again=again)

    def sends_home(self) -> bool:
        """Say whether requests that still wait for something are to end: another worker makes them."""
        return self.cut or is_closing(self._crawler)

    def cut_short(self) -> None:
        """End transfers under way, and the waits of requests that have not gone out."""
        self.cut = True
        self._crawler.signals.send_catch_log(transfers_cut)

    async def drop_under_way(self) -> int:
        """Give back every lease that is still held, and wait for none of them; return how many there were."""
        tokens = [*self.visits]
        for visit in self.visits.values():
            visit.done = True  # what comes of it after all is nobody's
        self.visits.clear()
        if tokens:
            with suppress(TimeoutError):  # Redis is away; they run out by themselves
                async with asyncio.timeout(STEP_SECONDS):
                    await self.give_back(tokens)
        return max(len(tokens), wait_no_longer(self._crawler))

    def has_own_interval(self, host: str) -> bool:
        """Return whether one of its URLs under way came with another interval than the crawl's."""
        return any(
            visit.lease.min_interval_ms is not None and host_key(visit.entry.wire) == host
            for visit in self.visits.values()
        )

    def _queues(self, host: str) -> set[str]:
        """Return where a host's URLs wait: what is under way knows of queues that spiders have named."""
        here = {visit.lease.host for visit in self.visits.values() if host_key(visit.entry.wire) == host}
        return here | {self.codec.queue_of(host)}

    async def close(self) -> None:
        """Close the connections."""
        if self.is_open:
            self.is_open = False
            await self.sampler.close(CACHE_SECONDS)
            await self.results.close(CACHE_SECONDS)
            await self._disconnect()

    async def _disconnect(self) -> None:
        self.codec.close()
        await self.scripts.close()
        await self.redis.aclose()
        await self.database.close()
        await self.life.close()
