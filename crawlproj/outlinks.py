"""What a page leads to: requests and links are kept back with it, and enter the frontier with its report."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from twisted.python.failure import Failure

from crawlproj.exceptions import BadUrl, UndecodableEntry
from crawlproj.frontier.canonical import normalise
from crawlproj.pages.known import known_links

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from crawlproj.frontier.entries import Entry
    from crawlproj.intake import Intake
    from crawlproj.items import Links, Visit
    from crawlproj.worker import Worker

logger = logging.getLogger(__name__)

MANY = 1000  # links, that are taken in within 10 ms


class Outlinks:
    """Keeps the links of pages under way, but for those that the crawl does not want or has already.

    Settings: DEPTH_LIMIT, FRONTIER_MAX_OUTLINKS.
    Stats: page/outlinks_cut, page/bad_links, frontier/filtered, dupefilter/filtered.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._depth_limit = crawler.settings.getint("DEPTH_LIMIT")
        self._asked_for: Visit | None = None  #: the page whose requests the listeners below were found for
        self._offsite: tuple[Callable[..., None], ...] | None = ()

    @property
    def _spider(self) -> Spider:
        return self._crawler.spider  # type: ignore[return-value]

    @property
    def _intake(self) -> Intake:
        return self._crawler.engine.scheduler.intake  # type: ignore[union-attr,no-any-return]

    def absorb(self, visit: Visit, output: Any) -> bool:
        """Keep a request back for the report. Returns whether *output* was one, or nothing at all."""
        if output is None:
            return True  # no signal ever says that Scrapy has dropped it
        if isinstance(output, Request):
            self._add_request(visit, output)
            return True
        return False

    async def add_links(self, visit: Visit, links: Links) -> None:
        """Keep the links of a page back; the event loop has its turn in between if there are many."""
        page, hops = visit.entry, visit.lease.embed_hops
        depth = page.depth + 1
        if self._depth_limit and depth > self._depth_limit:
            return
        seen, encode, admission = self._worker.seen, self._worker.codec.encode_link, self._worker.admission
        for urls, embed in ((links.embeds, True), (links.urls, False)):
            for number, url in enumerate(urls, start=1):
                if number % MANY == 0:
                    await asyncio.sleep(0)
                if url in seen:
                    self._know(visit, url)
                    continue
                try:
                    wire = normalise(url)
                    if not admission.is_open and admission.refusal(wire, depth, embed=embed):
                        self._crawler.stats.inc_value("frontier/filtered")
                        continue
                    entry = encode(wire, depth, page, embed=embed, embed_hops=hops)
                except BadUrl:
                    self._crawler.stats.inc_value("page/bad_links")
                else:
                    self._keep(visit, entry)

    async def add_stored(self, visit: Visit) -> None:
        """Let the links of the content that stands in again: the page was not parsed."""
        worker, page = self._worker, visit.entry
        links = await known_links(worker.database, worker.crawl.name, page.key)
        for number, link in enumerate(links, start=1):
            if number % MANY == 0:
                await asyncio.sleep(0)
            try:
                entry = worker.codec.encode_stored(
                    link.url, link.extra, page.depth + 1, page, embed_hops=visit.lease.embed_hops
                )
            except UndecodableEntry as exc:
                logger.warning("A stored link is left out: %s", exc)
                continue
            self._keep(visit, entry)

    def _add_request(self, visit: Visit, request: Request) -> None:
        if self._refused_by_listener(visit, request):
            return
        if request.url in self._worker.seen:
            known = self._worker.codec.encode_known(request, self._spider, visit.entry)
            if known is not None:
                self._crawler.stats.inc_value("dupefilter/filtered")
                self._know(visit, known)
                return
        # Scrapy noted the slot of the page in its meta; a spider that hands meta on does not mean it.
        slot = urlsplit(visit.entry.url).hostname if "download_slot" in request.meta else None
        entry = self._intake.entry_of(
            request,
            page=visit.entry,
            forced=request.dont_filter,
            slot=slot,
            embed_hops=visit.lease.embed_hops,
        )
        if entry is None:
            return
        if entry.fingerprint in self._worker.seen and not entry.forced:
            self._crawler.stats.inc_value("dupefilter/filtered")
            self._know(visit, entry)
            return
        self._keep(visit, entry)

    def _refused_by_listener(self, visit: Visit, request: Request) -> bool:
        """Ask whoever may refuse a request when it is scheduled, as the engine does: Offsite, for one."""
        if visit is not self._asked_for:
            self._asked_for, self._offsite = visit, self._lone_offsite()
        if self._offsite is None:
            return self._refused_by_anybody(request)
        if not getattr(self._spider, "allowed_domains", None):
            return False  # to Scrapy's Offsite every host is one of the spider's
        refused = False
        for ask in self._offsite:
            try:
                ask(request, self._spider)
            except IgnoreRequest:
                refused = True
            except Exception:
                # In the words of Scrapy's signals: who listens must not stop a crawl.
                told = {"receiver": ask}
                logger.exception("Error caught on signal handler: %(receiver)s", told)
        return refused

    def _lone_offsite(self) -> tuple[Callable[..., None], ...] | None:
        """Return Scrapy's own Offsite, if nobody but that listens: a signal costs more than all the rest.

        None: there are others.
        """
        found = liveReceivers(getAllReceivers(self._crawler.signals.sender, signals.request_scheduled))
        listeners = tuple(found)
        for each in listeners:
            owner = getattr(each, "__self__", None)
            if type(owner) is not OffsiteMiddleware or each != owner.request_scheduled:
                return None
        return listeners

    def _refused_by_anybody(self, request: Request) -> bool:
        answers = self._crawler.signals.send_catch_log(
            signals.request_scheduled,
            request=request,
            spider=self._spider,
            dont_log=IgnoreRequest,
        )
        return any(
            isinstance(answer, Failure) and isinstance(answer.value, IgnoreRequest) for _, answer in answers
        )

    def _know(self, visit: Visit, link: Entry | str) -> None:
        if visit.known_since is None:
            visit.known_since = self._worker.seen.epoch
        visit.known_links.append(link)

    def _keep(self, visit: Visit, entry: Entry) -> None:
        if len(visit.outlinks) < visit.lease.max_outlinks:
            visit.outlinks.append(entry)
        else:
            self._crawler.stats.inc_value("page/outlinks_cut")
