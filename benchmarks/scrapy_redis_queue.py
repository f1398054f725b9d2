"""scrapy-redis' queue and filter, filled and timed as its scheduler uses them: one URL at a time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider

from benchmarks.links import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.own_server import OwnServer

FILL = 1000  # URLs in one round trip while it is filled, which is not timed


class ScrapyRedisQueue:
    """PriorityQueue and RFPDupeFilter on a server of their own."""

    def __init__(self, server: OwnServer, hosts: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from scrapy_redis.dupefilter import RFPDupeFilter  # noqa: PLC0415
            from scrapy_redis.queue import PriorityQueue  # noqa: PLC0415
        self._spider = _Following(name="peer")
        self._server = server
        self._hosts = hosts
        self._filter: Any = RFPDupeFilter(server.client, "peer:dupefilter")
        self._queue: Any = PriorityQueue(server.client, self._spider, "%(spider)s:requests")
        self._next = 0
        self.per_seen = self.per_queued = 0.0

    def fill(self, n: int) -> None:
        """Bring it to *n* URLs, in large batches, and note the bytes of each."""
        before = self._server.settled_memory()
        for start in range(0, n, FILL):
            prints = [self._filter.request_fingerprint(each) for each in self._requests(start, FILL)]
            self._server.client.sadd(self._filter.key, *prints)
        seen = self._server.settled_memory()
        for start in range(0, n, FILL):
            requests = self._requests(start, FILL)
            self._server.client.zadd(self._queue.key, {self._queue._encode_request(r): 0 for r in requests})
        queued = self._server.settled_memory()
        self.per_seen, self.per_queued = (seen - before) / n, (queued - seen) / n
        self._next = n

    def new(self, n: int) -> None:
        """Let new URLs in, from a request each to Redis."""
        for request in self._requests(self._next, n):
            if self._filter.request_seen(request):
                raise SystemExit("scrapy-redis took a new URL for a seen one")
            self._queue.push(request)
        self._next += n

    def seen(self, n: int) -> None:
        """Let URLs in that it knows."""
        for request in self._requests(0, n):
            if not self._filter.request_seen(request):
                raise SystemExit("scrapy-redis took a seen URL for a new one")

    def pop(self, n: int) -> None:
        """Take URLs out; it has no leases, so there is nothing to finish."""
        for _ in range(n):
            if self._queue.pop() is None:
                raise SystemExit("scrapy-redis has nothing left")

    def _requests(self, start: int, n: int) -> list[Request]:
        return [
            Request(url, callback=self._spider.parse, meta={"depth": 1})
            for url in spread(start, n, self._hosts)
        ]


class _Following(Spider):
    def parse(self, response: Any) -> Iterator[Request]:
        """Stand in as a callback."""
        yield from ()
