"""One crawl of many hosts that need no network, as a process of its own: prints its figures as JSON.

python -m benchmarks.wide_crawl HOSTS URLS FOLDER
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from array import array
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, TextResponse
from scrapy.settings import Settings

from benchmarks.holdings import Holdings, grown, look, more
from crawlproj.items import Links
from crawlproj.scripts import Script, Scripts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from scrapy.http import Response

    from crawlproj.scripts import Argument

PAGE = (
    "<html><head><title>Page {0}</title></head><body><main><h1>Page {0}</h1><p>{1}</p></main></body></html>"
)
TEXT = "A paragraph that is long enough to count as the main text of this page, and says nothing else. " * 4
WARM = 0.05  # of the pages, after which everything that is needed once is there


class AnswerAtOnce(BaseDownloadHandler):
    """Stands in for every site: a robots.txt, a cookie, a page."""

    async def download_request(self, request: Request) -> Response:
        """Answer without a network."""
        if request.url.endswith("/robots.txt"):
            return TextResponse(request.url, body=b"User-agent: *\nDisallow: /private/\n", request=request)
        body = PAGE.format(request.url, TEXT).encode()
        headers = {"Content-Type": "text/html; charset=utf-8", "Set-Cookie": "session=1; Path=/"}
        return HtmlResponse(request.url, body=body, headers=headers, encoding="utf-8", request=request)


class Hosts(Spider):
    """Visits the same few pages on every host."""

    name = "hosts"
    hosts = urls = 0

    async def start(self) -> AsyncIterator[Request]:
        for number in range(self.hosts):
            yield Request(f"http://www.host{number}.example/0", dont_filter=True)

    def parse(self, response: Response) -> Iterator[Links]:
        if response.url.endswith("/0"):
            root = response.url[:-1]
            yield Links(tuple(f"{root}{number}" for number in range(1, self.urls)))


class Clock:
    """Notes how long each operation on Redis took, as the worker sees it."""

    seconds: ClassVar[dict[str, array[float]]] = defaultdict(partial(array, "d"))
    names: ClassVar[dict[str, str]] = {}

    @classmethod
    def start(cls) -> None:
        """Put itself in front of every call."""
        call: Callable[..., asyncio.Future[Any]] = Scripts.call

        def timed(
            self: Scripts, operation: Script, keys: Sequence[str], *arguments: Argument
        ) -> asyncio.Future[Any]:
            began, samples = time.perf_counter(), cls.seconds[operation.name]
            cls.names[operation.sha] = operation.name
            answer = call(self, operation, keys, *arguments)
            answer.add_done_callback(lambda _: samples.append(time.perf_counter() - began))
            return answer

        Scripts.call = timed  # type: ignore[method-assign]


class Watch:
    """Looks at what the process holds when it has warmed up and when the crawl is over."""

    def __init__(self, crawler: Any, pages: int) -> None:
        self.first: Holdings | None = None
        self.last: Holdings | None = None
        self._pages = 0
        self._warm = round(pages * WARM)
        crawler.signals.connect(self.response_received, signals.response_received)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def response_received(self) -> None:
        """Look once."""
        self._pages += 1
        if self._pages == self._warm:
            self.first = look()

    def spider_closed(self) -> None:
        """Look again, with everything still there."""
        self.last = look()


def main() -> None:
    """Crawl and say what it took."""
    hosts, urls, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    handler = f"{AnswerAtOnce.__module__}.{AnswerAtOnce.__qualname__}"
    settings.setdict(
        {
            "CRAWLPROJ_HOME": folder,
            "CRAWL_NAME": f"hosts-{hosts}",
            "MIN_INTERVAL_MS": 0,
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "PROGRESS_ENABLED": False,
            "LOG_LEVEL": "WARNING",
        }
    )
    Clock.start()
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(type("WideHosts", (Hosts,), {"hosts": hosts, "urls": urls}))
    watch = Watch(crawler, hosts * urls)
    process.crawl(crawler)
    process.start()
    assert watch.first is not None
    assert watch.last is not None
    least = hosts // 20
    stats, times = crawler.stats.get_stats(), os.times()
    figures = {
        "pages": stats.get("downloader/response_status_count/200", 0)
        - stats.get("robotstxt/response_count", 0),
        "seconds": stats["elapsed_time_seconds"],
        "cpu_seconds": times.user + times.system,
        "rss": [watch.first.rss, watch.last.rss],
        "grown": grown(watch.first, watch.last, least),
        "more": more(watch.first, watch.last, least),
        "calls": {name: len(values) for name, values in Clock.seconds.items()},
        "medians": {name: statistics.median(values) for name, values in Clock.seconds.items() if values},
        "names": Clock.names,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
