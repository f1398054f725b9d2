"""Fetches what it is told to, by the download handler that it is told to use.

    python -m tests.downloads.fetching HANDLER SETTINGS

Standard input is a JSON array of requests: `url`, and as wished `method`, `headers` (pairs), `body`, `meta`
and `stop` (a signal at which the download is stopped: "headers" or "bytes"; `fail` says how). They go out one
after the other. Standard output is a JSON array with what came of each.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import StopDownload

from crawlproj.pages.failure import explain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response

HANDLERS = {
    "twisted": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
    "curl": "crawlproj.downloads.handler.CurlDownloadHandler",
}
RESULTS: list[dict[str, Any]] = []


def result(response: Response) -> dict[str, Any]:
    """Return all there is to a response."""
    certificate: Any = response.certificate
    return {
        "kind": type(response).__name__,
        "url": response.url,
        "status": response.status,
        "headers": {
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in response.headers.items()
        },
        "body": response.body.decode("latin-1"),
        "flags": response.flags,
        "ip_address": str(response.ip_address),
        "protocol": response.protocol,
        "certificate": None if certificate is None else certificate.getSubject().commonName.decode(),
    }


class FetchingSpider(Spider):
    """Fetches one URL after the other, past the scheduler."""

    name = "fetching"

    async def start(self) -> AsyncIterator[Any]:
        self.crawler.signals.connect(self.headers_received, signal=signals.headers_received)
        self.crawler.signals.connect(self.bytes_received, signal=signals.bytes_received)
        for wish in json.load(sys.stdin):
            self.wish = wish
            self.seen: list[Any] = []
            try:
                request = Request(
                    wish["url"],
                    method=wish.get("method", "GET"),
                    headers=[(name, value.encode("latin-1")) for name, value in wish.get("headers", ())],
                    body=wish.get("body", ""),
                    meta={"download_timeout": 5, **wish.get("meta", {})},
                )
                assert self.crawler.engine is not None
                came = result(await self.crawler.engine.download_async(request))
                came["latency"] = "download_latency" in request.meta
            except StopDownload as stop:
                stopped: Any = stop.response
                came = {**result(stopped), "raised": "StopDownload"}
            except Exception as exc:  # noqa: BLE001  # whatever it is, the test looks at it
                came = {"raised": type(exc).__name__, "reason": explain(exc).reason}
            RESULTS.append({**came, "signals": self.seen})
        nothing: tuple[Request, ...] = ()
        for each in nothing:
            yield each

    def headers_received(self, headers: Any, body_length: int, request: Request, spider: Spider) -> None:
        self.seen.append(["headers", sorted(name.decode("latin-1") for name in headers)])
        if self.wish.get("stop") == "headers":
            raise StopDownload(fail=self.wish["fail"])

    def bytes_received(self, data: bytes, request: Request, spider: Spider) -> None:
        self.seen.append(["bytes"])
        if self.wish.get("stop") == "bytes":
            raise StopDownload(fail=self.wish["fail"])


if __name__ == "__main__":
    handler = HANDLERS[sys.argv[1]]
    process = AsyncCrawlerProcess(
        {
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "DOWNLOADER_MIDDLEWARES_BASE": {},
            "DOWNLOAD_MAXSIZE": 100_000,
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            **json.loads(sys.argv[2]),
        }
    )
    process.crawl(FetchingSpider)
    process.start()
    sys.stdout.write(json.dumps(RESULTS))
