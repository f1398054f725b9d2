"""One crawl by one contestant, as a process of its own: prints its figures as one JSON line.

python -m benchmarks.contestants NAME FOLDER URL…
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

COMMON: dict[str, Any] = {"LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False}
#: Scrapy's own defaults for what may be in flight, for everybody.
IN_FLIGHT = 16
PER_HOST = 8


def _follow_all(urls: list[str]) -> type:
    from scrapy import Request, Spider  # noqa: PLC0415
    from scrapy.linkextractors import LinkExtractor  # noqa: PLC0415

    class FollowAll(Spider):
        name = "follow_all"
        start_urls = urls
        links = LinkExtractor()

        def parse(self, response: Response) -> Iterator[Request]:
            for link in self.links.extract_links(response):  # type: ignore[arg-type]
                yield Request(link.url, callback=self.parse)

    # The frontier finds callbacks and classes by name, as in any project's spider file.
    return FollowAll


def _ours(folder: Path) -> dict[str, Any]:
    from scrapy.settings import Settings  # noqa: PLC0415

    settings = Settings()
    settings.setmodule("crawlproj.settings")
    return {
        **settings.copy_to_dict(),
        "CRAWLPROJ_HOME": str(folder / "home"),
        "MIN_INTERVAL_MS": 0,
        "HOST_MAX_IN_FLIGHT": PER_HOST,
        "MAX_CONCURRENT_COUNT": IN_FLIGHT,
        # Two workers are on one crawl when they are told the same name.
        "CRAWL_NAME": os.environ.get("BENCH_CRAWL_NAME"),
    }


def _crawl(name: str, folder: Path, urls: list[str]) -> tuple[type | str, dict[str, Any], dict[str, Any]]:
    """Return the spider, its settings and its arguments."""
    if name == "memory":
        return _follow_all(urls), {}, {}
    if name == "scrapy-redis":
        settings = {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_URL": os.environ["BENCH_REDIS_URL"],
        }
        return _follow_all(urls), settings, {}
    if name == "site":
        return "site", _ours(folder), {"seeds": " ".join(urls)}
    if name == "unmodified":
        return _follow_all(urls), _ours(folder), {}
    raise SystemExit(f"no contestant is called {name}")


def main() -> None:
    """Run one crawl."""
    name, folder, *urls = sys.argv[1:]
    import warnings  # noqa: PLC0415

    from scrapy import signals  # noqa: PLC0415
    from scrapy.crawler import AsyncCrawlerProcess  # noqa: PLC0415

    warnings.filterwarnings("ignore", module="scrapy_redis")
    spider, settings, arguments = _crawl(name, Path(folder), urls)
    process = AsyncCrawlerProcess({**settings, **COMMON})
    crawler = process.create_crawler(spider)
    times: list[float] = []

    def received() -> None:
        # The first is kept and the last one moves.
        times[1:] = [time.time()]

    crawler.signals.connect(received, signal=signals.response_received)
    process.crawl(crawler, **arguments)
    process.start()
    stats = crawler.stats.get_stats()
    spent = os.times()
    figures = {
        "contestant": name,
        "pages": stats["response_received_count"],
        "seconds": stats["elapsed_time_seconds"],
        "cpu_seconds": spent.user + spent.system,
        "first": times[0],
        "last": times[-1],
        "stats": {key: value for key, value in stats.items() if isinstance(value, (int, float, str))},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
