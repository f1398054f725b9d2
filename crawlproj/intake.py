"""The way of requests into the frontier: as data, in batches, and not before it knows what is not due."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crawlproj.exceptions import BadUrl, Refused, UnserialisableRequest
from crawlproj.frontier.canonical import normalise
from crawlproj.frontier.requests import meta_count
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from crawlproj.frontier.entries import Entry, Stored
    from crawlproj.frontier.feed import Feed
    from crawlproj.items import Visit
    from crawlproj.worker import Worker

logger = logging.getLogger(__name__)

ROOM = 1_000  # start requests that may wait here while Redis is slower than the spider
BATCH = 500
FEED_SECONDS = 1.0  # between two looks into a start-URL key that was empty


class Intake:
    """Takes requests for the frontier and sends them on in the background. *added* is called when some went.

    Stats: scheduler/enqueued, dupefilter/filtered, frontier/filtered, frontier/refused.
    """

    def __init__(self, crawler: Crawler, worker: Worker, added: Callable[[], None]) -> None:
        self.spider: Spider
        self.marked: asyncio.Event | None = None  #: when the frontier knows what is not due; None: it does
        self.pending: list[Entry] = []  #: accepted, not in Redis yet
        self._crawler = crawler
        self._worker = worker
        self._added = added
        self._sending: asyncio.Task[None] | None = None

    def take(self, request: Request, *, forced: bool, seed: bool) -> bool:
        """Take a request. False: it was seen before, or cannot be kept."""
        entry = self.entry_of(request, forced=forced, seed=seed)
        if entry is None:
            return False
        if entry.fingerprint in self._worker.seen and not forced:
            self._crawler.stats.inc_value("dupefilter/filtered")
            return False
        self.pending.append(entry)
        self._crawler.stats.inc_value("scheduler/enqueued")
        if self._sending is None or self._sending.done():
            self._sending = self._worker.spawn(self.send())
        return True

    def redirect(self, request: Request, visit: Visit) -> None:
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
                self.spider,
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
        depth, embed = meta_count(request, "depth"), bool(request.meta.get("embed"))
        return admission.refusal(request.url, depth, embed=embed)

    async def may_begin(self) -> None:
        """Wait until what is not due is known to the frontier: no link or start request may lead to it."""
        if self.marked is not None:
            await self.marked.wait()

    async def send(self) -> None:
        """Send what is pending."""
        worker = self._worker
        try:
            while self.pending:
                await self.may_begin()
                batch = await worker.codec.assign(self.pending[:BATCH])
                epoch, over = worker.seen.epoch, worker.frontier.figures.over
                added = await worker.frontier.schedule(batch)
                if epoch != worker.seen.epoch:
                    continue  # a new connection: whether the server still has what went before, nobody knows
                del self.pending[: len(batch)]
                if over == worker.frontier.figures.over:  # else some are not seen: no room was left
                    for entry in batch:
                        worker.seen.add(entry.fingerprint)
                if len(batch) > added:
                    self._crawler.stats.inc_value("dupefilter/filtered", len(batch) - added)
                self._added()
        except Refused as exc:
            logger.error("%d requests are too late: %s", len(self.pending), exc)
            self.pending.clear()

    async def room(self) -> None:
        """Wait while too many requests are on their way to Redis."""
        while len(self.pending) > ROOM and self._sending is not None:
            await asyncio.wait([self._sending])

    async def sent(self) -> None:
        """Wait until nothing is on its way."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending])

    def give_up(self) -> None:
        """Let nothing in that still has to wait: it comes again with the next worker."""
        if self.marked is not None and not self.marked.is_set():
            self.pending.clear()
            self.marked.set()

    async def read(self, feed: Feed) -> None:
        """Move entries of a scrapy-redis start-URL key into the frontier, until cancelled."""
        await self.may_begin()
        while True:
            moved = await feed.move(self._worker.frontier, self._worker.codec, self._seed)
            if moved:
                self._added()
            await asyncio.sleep(0 if moved else FEED_SECONDS)

    def _seed(self, request: Request) -> Entry | None:
        return self.entry_of(request, forced=request.dont_filter, seed=True)
