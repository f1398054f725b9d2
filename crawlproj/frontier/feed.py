"""Start URLs that others push into Redis for a scrapy-redis spider.

scrapy-redis pops a batch and then reads it, so one bad entry loses the rest and a crash loses all.
Here an entry is read first, and leaves the key in the same script in which its request enters the
frontier.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request

from crawlproj.exceptions import Refused
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Spider

    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.entries import Entry
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
        reader: Any = spider
        reader.fetch_data = lambda key, batch_size: []  # noqa: ARG005
        reader.count_size = lambda key: 0  # noqa: ARG005
        return cls(reader, str(key))

    async def move(self, frontier: Frontier, codec: Codec, encode: Callable[[Request], Entry | None]) -> int:
        """Move some entries into the frontier; bad ones are reported and dropped. Returns how many left."""
        if frontier.figures.stop or frontier.figures.closed:
            return 0  # this run would not crawl them; the next one will
        moved = 0
        with suppress(Refused):  # another worker has just sealed it
            for raw in await frontier.peek(self.key, BATCH):
                entries, fault = self._entries(raw, encode)
                if await frontier.take_from(self.key, raw, await codec.assign(entries)):
                    moved += 1
                    if fault is not None:
                        shown = without_login(raw.decode("utf-8", "backslashreplace"))[:80]
                        logger.error("Entry %r of %s %s", shown, self.key, fault)
        if moved:
            # What its limit on idle time counts from, and what its own reader would have set.
            self.spider.spider_idle_start_time = int(time.time())
        return moved

    def _entries(
        self, raw: bytes, encode: Callable[[Request], Entry | None]
    ) -> tuple[list[Entry], str | None]:
        """Return what an entry asks for, or what is wrong with it."""
        try:
            made = self.spider.make_request_from_data(raw)
            requests: Iterable[Any] = [made] if isinstance(made, Request) else list(made or ())
        except Exception as exc:  # noqa: BLE001  # the spider's code on anybody's data: any error is the entry's
            return [], f"is no request: {without_login(str(exc))[:120]}"
        entries = [encode(each) for each in requests if isinstance(each, Request)]
        return [entry for entry in entries if entry is not None], None if entries else "holds no URL"
