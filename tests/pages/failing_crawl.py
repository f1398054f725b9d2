"""A crawl of Scrapy's own engine that says why each of its requests failed.

    python -m tests.pages.failing_crawl http11|aiohttp|curl URL…

It prints one JSON array for every URL: the URL and the reason.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess

from crawlproj.pages.failure import explain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response
    from twisted.python.failure import Failure

HANDLER = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
CURL = "crawlproj.downloads.handler.CurlDownloadHandler"
SETTINGS: dict[str, Any] = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 2,
    "DOWNLOAD_MAXSIZE": 1000,
    "REDIRECT_MAX_TIMES": 3,
}


def tell(url: str, reason: str) -> None:
    """Print one line for the test."""
    sys.stdout.write(json.dumps([url, reason]) + "\n")


class FailingSpider(Spider):
    """Fetches the URLs it is given."""

    name = "failing"

    async def start(self) -> AsyncIterator[Request]:
        for url in sys.argv[2:]:
            yield Request(url, errback=self.failed, meta={"given": url}, dont_filter=True)

    def parse(self, response: Response) -> None:
        tell(response.meta["given"], f"answered {response.status}")

    def failed(self, failure: Failure) -> None:
        tell(failure.request.meta["given"], explain(failure.value).reason)


if __name__ == "__main__":
    if sys.argv[1] == "aiohttp":
        SETTINGS |= {
            "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
            "TWISTED_REACTOR_ENABLED": False,
        }
    if sys.argv[1] == "curl":
        SETTINGS["DOWNLOAD_HANDLERS"] = {"http": CURL, "https": CURL}
    process = AsyncCrawlerProcess(SETTINGS)
    process.crawl(FailingSpider)
    process.start()
