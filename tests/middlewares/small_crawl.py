"""A crawl of Scrapy's own engine and scheduler with nothing of ours but the throttle and robots.

    python -m tests.middlewares.small_crawl REDIS_URL SETTINGS URL…

It prints one JSON object for every request: its URL, and the status it got or the error it met; and
one for every crawl-delay it was told of.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess

from crawlproj.connections import open_redis
from crawlproj.items import Lease
from crawlproj.scripts import Scripts
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure


def tell(**what: Any) -> None:
    """Print one line for the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class OnlyRedis:
    """Opens as much of the worker as the throttle needs."""

    def __init__(self, crawler: Crawler) -> None:
        self._worker = Worker.of(crawler)
        self._worker.sampler = self  # type: ignore[assignment]
        crawler.signals.connect(self._open, signal=signals.spider_opened)
        crawler.signals.connect(self._close, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def _open(self) -> None:
        self._worker.redis = open_redis(sys.argv[1])
        self._worker.scripts = Scripts(self._worker.redis, "test")
        self._worker.is_open = True

    async def _close(self) -> None:
        self._worker.is_open = False
        await self._worker.scripts.close()
        await self._worker.redis.aclose()

    async def set_crawl_delay(self, host: str, seconds: float) -> None:
        tell(host=host, seconds=seconds)

    async def recall(self, host: str) -> None:
        """Know nothing of a host whose robots.txt cannot be read."""


class SmallSpider(Spider):
    """Fetches the URLs it is given, all at once; `#lease=MS` gives one a lease with an interval."""

    name = "small"

    async def start(self) -> AsyncIterator[Request]:
        for number, given in enumerate(sys.argv[3:]):
            url, _, interval = given.partition("#lease=")
            meta: dict[str, Any] = {"given": url}
            if interval:
                host = url.split("/")[2]
                meta["lease"] = Lease(
                    token=number,
                    host=host,
                    attempts=0,
                    min_interval_ms=int(interval),
                    in_flight=self.settings.getint("HOST_MAX_IN_FLIGHT"),
                    expires_at=0,
                )
            yield Request(url, self.parse, errback=self.failed, meta=meta, dont_filter=True)

    def parse(self, response: Response) -> None:
        tell(url=response.meta["given"], status=response.status, meta=sorted(response.meta))

    def failed(self, failure: Failure) -> None:
        error = failure.value
        response = getattr(error, "response", None)
        tell(
            url=failure.request.meta["given"],
            error=type(error).__name__,
            reason=getattr(error, "reason", str(error)),
            retry_after_ms=getattr(error, "retry_after_ms", None),
            status=response.status if response is not None else None,
            meta=sorted(failure.request.meta),
        )


if __name__ == "__main__":
    settings: dict[str, Any] = {
        "DOWNLOADER_MIDDLEWARES": {
            "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
            "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
            "middlewares.robots.RobotsMiddleware": 100,
            "middlewares.throttle.ThrottleMiddleware": 990,
        },
        "EXTENSIONS": {OnlyRedis: 0},
        "CONCURRENT_REQUESTS": 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1024,
        "DOWNLOAD_DELAY": 0,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "WARNING",
        "USER_AGENT": "crawlproj (+https://crawlproj.invalid)",
        "ROBOTSTXT_OBEY": True,
        "CRAWLPROJ_HOME": "/nonexistent",
        "MIN_INTERVAL_MS": 0,
        "HOST_MAX_IN_FLIGHT": 1,
        "MAX_CONCURRENT_COUNT": 32,
        "COOKIES_MAX_DOMAINS": 100,
        "ROBOTS_CACHE_SECONDS": 86_400,
        "ROBOTS_RETRY_SECONDS": 60,
        "CRAWL_DELAY_MAX_SECONDS": 300,
        "MAX_ATTEMPTS": 5,
        "LEASE_SECONDS": 60,
        "RENDER_MODE": "off",
    }
    from scrapy.settings import default_settings

    import crawlproj.settings as ours

    for name in dir(ours):
        if name.isupper() and not hasattr(default_settings, name):  # no wiring, and nothing of Scrapy's
            settings.setdefault(name, getattr(ours, name))
    process = CrawlerProcess({**settings, **json.loads(sys.argv[2])})
    process.crawl(SmallSpider)
    process.start()
