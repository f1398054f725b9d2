"""One page object for every outcome of a leased request, with every outlink it produced."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.log import failure_to_exc_info, logformatter_adapter
from scrapy.utils.spider import iterate_spider_output

from crawlproj.exceptions import HostRests, NotModified, Refused, WorkerCloses
from crawlproj.items import Links, PageObject
from crawlproj.outlinks import Outlinks
from crawlproj.pages.outcome import answered, redirected, unanswered
from crawlproj.redaction import without_login
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.frontier.entries import Entry
    from crawlproj.items import Visit
    from crawlproj.scheduler import FrontierScheduler

logger = logging.getLogger(__name__)

MANY_REQUESTS = 100  # that are taken in within 10 ms


class PageMiddleware:
    """Ends every leased request in one page object, which goes through the pipelines.

    It stands nearest the engine and so sees what all other spider middlewares let out. Requests and
    Links are kept back and enter the frontier with the page's report, in one step.

    Settings: those of Outlinks. Stats: those of Outlinks; page/callback_errors, frontier/late.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._worker = Worker.of(crawler)
        self._worker.pages = self
        self._outlinks = Outlinks(crawler, self._worker)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it and listen for items that leave the other pipelines."""
        self = cls(crawler)
        crawler.signals.connect(self.item_scraped, signal=signals.item_scraped)
        crawler.signals.connect(self.item_left, signal=signals.item_dropped)
        crawler.signals.connect(self.item_left, signal=signals.item_error)
        return self

    @property
    def _scheduler(self) -> FrontierScheduler:
        return self._crawler.engine.scheduler  # type: ignore[return-value]

    # --- what Scrapy calls ----------------------------------------------------------------------

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Let start requests through no faster than the frontier takes them: the crawl's, or the spider's."""
        scheduler = self._scheduler  # an engine that has closed has none any more
        try:
            seeds = self._worker.crawl.config.get("seeds")
            async for each in _requests(seeds) if seeds else start:
                if isinstance(each, Request):
                    await scheduler.intake.room()
                yield each
        finally:
            scheduler.no_more_starts()

    def process_spider_input(self, response: Response) -> None:
        """Note that a response has come as far as the spider."""
        visit = self._visit(response)
        if visit is not None:
            visit.answered = True

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass items on, keep links back, and end the page when the callback is exhausted."""
        visit = self._visit(response)
        if visit is None or visit.done:
            async for each in result:
                yield each
            return
        try:
            absorbed = 0
            async for each in result:
                if isinstance(each, Links):
                    await self._outlinks.add_links(visit, each)
                elif self._outlinks.absorb(visit, each):
                    absorbed += 1
                    if absorbed % MANY_REQUESTS == 0:
                        await asyncio.sleep(0)
                else:
                    visit.pending_items += 1
                    yield each
        except Exception as exc:
            self._callback_failed(visit, exc)
            raise
        finally:
            await self._settle(visit, answered(visit, response))

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """End the page of a callback that raised before it yielded anything."""
        visit = self._visit(response)
        if visit is not None and not visit.done:
            self._callback_failed(visit, exception)
            self._worker.spawn(self._settle(visit, answered(visit, response)))

    def item_scraped(self, item: Any, response: Response | Failure | None, spider: Spider) -> None:
        """Keep an item that has passed the pipelines, to be committed with its page."""
        visit = self._visit(response)
        if visit is not None:
            visit.items.append(item)
            self._item_settled(visit)

    def item_left(self, response: Response | Failure | None, spider: Spider) -> None:
        """Wait no longer for an item that a pipeline dropped or broke on."""
        visit = self._visit(response)
        if visit is not None:
            self._item_settled(visit)

    # --- what the scheduler calls ---------------------------------------------------------------

    def failed(self, original: Callable[..., Any] | None, failure: Failure) -> Any:
        """Serve as the errback of a leased request; *original* is the spider's own."""
        request: Request = failure.request  # type: ignore[attr-defined]
        visit = self._worker.visit_of(request)
        if visit is None or visit.done or visit.answered:
            # The response goes on through the spider middlewares, and ends there.
            return failure if original is None else original(failure)
        return self._failed(visit, request, original, failure)

    def redirected(self, visit: Visit, url: str, entry: Entry | None) -> None:
        """End *visit*, whose target goes its own way as *entry*."""
        if entry is not None:
            visit.outlinks.append(entry)
        page = redirected(visit, url)
        self._worker.spawn(self._settle(visit, page, counted=True))

    # --- inside ---------------------------------------------------------------------------------

    async def _failed(
        self,
        visit: Visit,
        request: Request,
        original: Callable[..., Any] | None,
        failure: Failure,
    ) -> AsyncIterator[Any]:
        error = failure.value
        assert error is not None  # Twisted types it as optional; a failure without one makes no sense
        if isinstance(error, WorkerCloses):
            if isinstance(error, HostRests) and error.retry_after_ms:
                with suppress(Refused):  # another worker has sealed the run
                    await self._worker.frontier.rest(visit.lease.host, error.retry_after_ms)
            await self._give_back(visit)
            return
        page = unanswered(visit, error)
        try:
            if isinstance(error, NotModified):
                await self._outlinks.add_stored(visit)
            elif original is not None and page.final:
                output = await ensure_awaitable(iterate_spider_output(original(failure)))
                async for each in as_async_generator(output):
                    if isinstance(each, Links):
                        await self._outlinks.add_links(visit, each)
                    elif not self._outlinks.absorb(visit, each):
                        visit.pending_items += 1
                        yield each
            elif not isinstance(error, IgnoreRequest):
                self._log_download_error(failure, request)
        finally:
            await self._settle(visit, page)

    async def _give_back(self, visit: Visit) -> None:
        """Give the lease of a request back that never went out; it costs no attempt and no target."""
        visit.done = True
        self._worker.visits.pop(visit.lease.token, None)
        await self._worker.give_back([visit.lease.token])

    def _log_download_error(self, failure: Failure, request: Request) -> None:
        """Say what Scrapy says of a failure that no errback takes."""
        spider = self._crawler.spider
        words = self._crawler.logformatter.download_error(failure, request, spider)  # type: ignore[arg-type]
        logger.log(
            *logformatter_adapter(words), extra={"spider": spider}, exc_info=failure_to_exc_info(failure)
        )

    def _callback_failed(self, visit: Visit, error: Exception) -> None:
        if not isinstance(error, HttpError | CloseSpider) and visit.detail is None:
            visit.detail = without_login(f"{type(error).__name__}: {error}")[:500]
            self._crawler.stats.inc_value("page/callback_errors")

    async def _settle(self, visit: Visit, page: PageObject, *, counted: bool = False) -> None:
        """Send the page through the pipelines, once per lease and after all its items."""
        if visit.done:
            return
        visit.done = True
        await visit.items_settled()
        outlinks = tuple(await self._worker.codec.assign(visit.outlinks))
        if not await self._still_ours(visit):
            self._crawler.stats.inc_value("frontier/late")
            self._worker.visits.pop(visit.lease.token, None)
            return
        page = replace(
            page,
            detail=page.detail or visit.detail,
            outlinks=outlinks,
            known_links=tuple(visit.known_links),
            items=tuple(visit.items),
            counted=counted,
        )
        try:
            await self._crawler.engine.scraper.itemproc.process_item_async(page)
        except DropItem:
            pass  # how the report pipeline keeps pages from the spider's own pipelines
        except Exception as exc:  # noqa: BLE001  # a pipeline is anybody's code; the lease must not hang on it
            self._worker.give_up("pipeline_failed", exc)
            await self._give_back(visit)
        finally:
            self._worker.visits.pop(visit.lease.token, None)

    async def _still_ours(self, visit: Visit) -> bool:
        """Say whether the lease is this worker's: it may have stood still while another one took the URL."""
        if time.monotonic() < visit.held_until:
            return True
        worker = self._worker
        lost = await worker.frontier.renew(worker.id, [visit.lease.token], worker.config.lease_seconds)
        return not lost

    def _item_settled(self, visit: Visit) -> None:
        visit.pending_items -= 1
        if visit.pending_items <= 0 and visit.waiter is not None and not visit.waiter.done():
            visit.waiter.set_result(None)

    def _visit(self, source: Response | Failure | None) -> Visit | None:
        request = getattr(source, "request", None)
        return None if request is None else self._worker.visit_of(request)


async def _requests(seeds: Sequence[str]) -> AsyncIterator[Request]:
    """Yield a start request for each seed that a crawl was added with."""
    for url in seeds:
        yield Request(url, dont_filter=True, meta={"is_start_request": True})
