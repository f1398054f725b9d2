"""Commit every page, and the spider's items of it, in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from crawlproj.items import PageObject
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class StorePipeline:
    """Hands pages to the store and goes on when they are committed."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it for this worker."""
        return cls(Worker.of(crawler))

    async def process_item(self, item: Any) -> Any:
        """Return a page once it is committed; a lease may end only then."""
        return await self._worker.store.put(item) if isinstance(item, PageObject) else item

    async def close_spider(self) -> None:
        """Wait for the last pages: they must be committed before their leases are given up."""
        if self._worker.is_open:
            await self._worker.settled()
            await self._worker.store.close()
