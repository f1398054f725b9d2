"""Tell the frontier how a lease ended; the page's outlinks enter in the same step."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

from crawlproj.exceptions import BadUrl, Refused
from crawlproj.frontier.canonical import fingerprint, normalise
from crawlproj.frontier.records import Outcome
from crawlproj.items import PageObject, ScheduleStatus
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from crawlproj.frontier.codec import Codec, Entry
    from crawlproj.items import Visit

_OUTCOMES = {
    ScheduleStatus.SUCCEEDED: Outcome.SUCCEEDED,
    ScheduleStatus.FAILED: Outcome.FAILED,
    ScheduleStatus.RETRY: Outcome.RETRY,
    ScheduleStatus.DISREGARDED: Outcome.DISREGARDED,
}


class ReportPipeline:
    """Ends the lease of a page that has been committed. The page goes no further.

    Stats: page/fetch/<fetch_status>, page/schedule/<schedule_status>, page/outlinks, frontier/late.
    """

    def __init__(self, worker: Worker, stats: StatsCollector) -> None:
        self._worker = worker
        self._stats = stats

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

    async def _report(self, page: PageObject) -> None:
        worker = self._worker
        assert page.schedule_status is not None
        visit = worker.visits.get(page.lease.token)
        since = visit.known_since if visit is not None else None
        since = worker.seen.epoch if since is None else since
        if since != worker.seen.epoch:
            since = await self._send_known(visit)
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
        if since != worker.seen.epoch:
            await self._send_known(visit)
        if in_time:
            for entry in page.outlinks:
                worker.seen.add(entry.url if entry.plain else entry.fingerprint)
            self._stats.inc_value("page/outlinks", added)
        else:
            self._stats.inc_value("frontier/late")
        self._count(page)
        for listener in worker.after_finish:
            listener()

    async def _send_known(self, visit: Visit | None) -> int:
        """Send links that were left out as known: the server has been away, and may have forgotten them.

        Returns the epoch of the cache as they went.
        """
        worker = self._worker
        epoch = worker.seen.epoch
        if visit is not None and visit.known_links:
            known = [self._encode_known(link, visit) for link in visit.known_links]
            with suppress(Refused):
                await worker.frontier.schedule(await worker.codec.assign(known))
        return epoch

    def _encode_known(self, link: Entry | str, visit: Visit) -> Entry:
        url, extra = (link, "") if isinstance(link, str) else (link.url, link.data.partition("\n")[2])
        return self._worker.codec.encode_stored(
            url, extra or None, visit.entry.depth + 1, visit.entry, embed_hops=visit.lease.embed_hops
        )

    def _count(self, page: PageObject) -> None:
        for status in (page.fetch_status, page.schedule_status):
            if status is not None:
                kind = "fetch" if status is page.fetch_status else "schedule"
                self._worker.tally[f"{kind}:{status.value}"] += 1
                self._stats.inc_value(f"page/{kind}/{status.value}")


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
