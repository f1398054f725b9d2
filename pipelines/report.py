"""Tell the frontier how a lease ended; the page's outlinks enter in the same step."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

from crawlproj.crawls import incidents
from crawlproj.crawls.incidents import HostNotes
from crawlproj.exceptions import BadUrl, Refused
from crawlproj.frontier.canonical import fingerprint, host_key, normalise
from crawlproj.frontier.records import Outcome
from crawlproj.items import FetchStatus, PageObject, ScheduleStatus
from crawlproj.results.histogram import class_of
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from crawlproj.crawls.incidents import Recovery, Trouble
    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.entries import Entry
    from crawlproj.items import Visit

_OUTCOMES = {
    ScheduleStatus.SUCCEEDED: Outcome.SUCCEEDED,
    ScheduleStatus.FAILED: Outcome.FAILED,
    ScheduleStatus.RETRY: Outcome.RETRY,
    ScheduleStatus.DISREGARDED: Outcome.DISREGARDED,
}

CLOSE_SECONDS = 2.0  # for notes, when the worker leaves
#: Incidents whose wait is ours: no host has asked for it.
OUR_WAITS = frozenset({"robots_unavailable"})


class ReportPipeline:
    """Ends the lease of a page that has been committed. The page goes no further.

    Stats: page/fetch/<fetch_status>, page/schedule/<schedule_status>, page/outlinks, frontier/late,
    page/bytes_saved (of bodies that a 304 spared; as they are stored, so before any compression on the wire).
    """

    def __init__(self, worker: Worker, stats: StatsCollector) -> None:
        self._worker = worker
        self._stats = stats
        self._hosts = HostNotes(self._write, self._wait_ms)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it for this worker."""
        return cls(Worker.of(crawler), crawler.stats)

    async def process_item(self, item: Any) -> Any:
        """End the lease, then keep the page from the spider's own pipelines."""
        if not isinstance(item, PageObject):
            return item
        await self._report(item)
        raise DropItem("the page is stored; it is no item of the spider's")

    async def close_spider(self) -> None:
        """Write the notes on hosts that are still to be written."""
        await self._hosts.close(CLOSE_SECONDS)

    async def _report(self, page: PageObject) -> None:
        worker = self._worker
        assert page.schedule_status is not None
        visit = worker.visits.get(page.lease.token)
        if visit is not None and visit.known_since not in {None, worker.seen.epoch}:
            await self._send(self._known(visit))
        epoch, over = worker.seen.epoch, worker.frontier.figures.over
        in_time, added = await worker.frontier.finish(
            page.lease.token,
            _OUTCOMES[page.schedule_status],
            outlinks=page.outlinks,
            results=set(_results(page, worker.codec)),
            retry_after_ms=page.retry_after_ms,
            host_incident=page.host_incident,
            counted=page.counted,
            duration_ms=page.duration_ms,
            size=len(page.body),
        )
        if in_time and epoch != worker.seen.epoch:
            # A new connection: whether the server still has what went before, nobody knows.
            await self._send([*page.outlinks, *(self._known(visit) if visit is not None else ())])
        elif in_time:
            # Unless the limit on URLs has turned some away: those may come in when they are found again.
            for entry in page.outlinks if over == worker.frontier.figures.over else ():
                worker.seen.add(entry.url if entry.plain else entry.fingerprint)
            self._stats.inc_value("page/outlinks", added)
        if not in_time:
            self._stats.inc_value("frontier/late")
        self._count(page)
        self._look_at_host(page)
        worker.results.note(page)
        if page.stores and page.text is not None:
            host = host_key(page.url) if visit is None else host_key(visit.entry.wire)
            worker.sampler.learn(host, page.text.language, _content_language(page))
        if page.fetch_status is FetchStatus.NOT_MODIFIED and visit is not None:
            self._stats.inc_value("page/bytes_saved", visit.content_size)
        for listener in worker.after_finish:
            listener()

    async def _send(self, links: Sequence[Entry]) -> None:
        """Send links that the frontier may have forgotten; those that it has not are dropped as seen."""
        worker = self._worker
        with suppress(Refused):
            await worker.frontier.schedule(await worker.codec.assign(links))

    def _known(self, visit: Visit) -> list[Entry]:
        """Return the links that were left out of the page's report as known."""
        page, hops = visit.entry, visit.lease.embed_hops
        encode = partial(self._worker.codec.encode_stored, depth=page.depth + 1, page=page, embed_hops=hops)
        return [
            encode(link, None)
            if isinstance(link, str)
            else encode(link.url, link.data.partition("\n")[2] or None)
            for link in visit.known_links
        ]

    def _look_at_host(self, page: PageObject) -> None:
        """Note whether the host of a page is in trouble, or answers."""
        host = page.lease.host
        if page.host_incident:
            reason = page.reason or "unknown"
            asked = None if reason in OUR_WAITS else page.retry_after_ms
            self._hosts.incident(host, reason, asked_ms=asked)
        elif page.http_status is not None or page.redirect_to is not None:
            self._hosts.answered(host)

    async def _write(self, found: Trouble | Recovery, wait_ms: int | None) -> None:
        await incidents.write(self._worker.life, self._worker.crawl.id, found, wait_ms)

    async def _wait_ms(self, host: str) -> int | None:
        with suppress(Refused):  # the run is over, and nothing waits any more
            view = await self._worker.frontier.host(host)
            return view.backs_off_ms if view is not None else None
        return None

    def _count(self, page: PageObject) -> None:
        if page.duration_ms is not None:
            self._worker.tally[f"ms:{class_of(page.duration_ms)}"] += 1
        for status in (page.fetch_status, page.schedule_status):
            if status is not None:
                kind = "fetch" if status is page.fetch_status else "schedule"
                self._worker.tally[f"{kind}:{status.value}"] += 1
                self._stats.inc_value(f"page/{kind}/{status.value}")


def _content_language(page: PageObject) -> str | None:
    return next((value for name, value in page.headers if name.lower() == "content-language"), None)


def _results(page: PageObject, codec: Codec) -> Iterator[int]:
    """Yield what counts as a result, as fingerprints of canonical URLs: the page, and items by their URL."""
    if page.final and page.disregarded is None and page.redirect_to is None:
        yield fingerprint(page.canonical_url)
    for number, item in enumerate(page.items):
        # An item without a URL of its own is a result all the same, and the same one when fetched again.
        name = f"{page.canonical_url} item {number}"
        # A callback may yield anything; Scrapy lets a string through its pipelines, too.
        url = ItemAdapter(item).get("url") if ItemAdapter.is_item(item) else None
        if isinstance(url, str):
            with suppress(BadUrl):
                name = codec.canonical(normalise(url))
        yield fingerprint(name)
