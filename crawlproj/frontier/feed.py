"""Start URLs that others push into Redis for a scrapy-redis spider.

scrapy-redis pops a batch and then reads it, so one bad entry loses the rest and a crash loses all.
Here an entry is read first, and leaves the key in the same script in which its request enters the
frontier.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Spider

    from crawlproj.frontier.codec import Entry
    from crawlproj.frontier.frontier import Frontier

logger = logging.getLogger(__name__)

BATCH = 16


@dataclass(frozen=True, slots=True)
class Feed:
    """The start-URL key of one spider: a list, a set or a sorted set."""

    spider: Any
    key: str

    @classmethod
    def of(cls, spider: Spider) -> Feed | None:
        """Return the feed of a scrapy-redis spider and take the reading over from it, or None."""
        key = getattr(spider, "redis_key", None)
        if not key or not hasattr(spider, "make_request_from_data"):
            return None
        if not hasattr(spider, "fetch_data"):
            return None
        # Its own reader pops before it reads; left with nothing to pop, all else of it works.
        spider.fetch_data = lambda key, batch_size: []  # noqa: ARG005
        return cls(spider, str(key))

    async def move(self, frontier: Frontier, encode: Callable[[Request], Entry | None]) -> int:
        """Move some entries into the frontier; bad ones are reported and dropped. Returns how many left."""
        moved = 0
        for raw in await frontier.peek(self.key, BATCH):
            entries = self._entries(raw, encode)
            moved += await frontier.take_from(self.key, raw, entries)
        return moved

    def _entries(self, raw: bytes, encode: Callable[[Request], Entry | None]) -> list[Entry]:
        try:
            made = self.spider.make_request_from_data(raw)
            requests: Iterable[Any] = [made] if isinstance(made, Request) else list(made or ())
        except Exception as exc:  # noqa: BLE001  # the spider's code on anybody's data: any error is the entry's
            logger.error("Entry %r of %s is no request: %s", raw[:80], self.key, exc)
            return []
        entries = [encode(each) for each in requests if isinstance(each, Request)]
        if not entries:
            logger.error("Entry %r of %s holds no URL", raw[:80], self.key)
        return [entry for entry in entries if entry is not None]
