"""A crawl of Scrapy's own engine and scheduler with leased requests and what decides over their answers.

    python -m tests.middlewares.leased_crawl SETTINGS REQUESTS

REQUESTS is a JSON array of objects with `url`, and perhaps `attempts`, `validators`, `headers`, `meta`. The
crawl prints one JSON object for every request: its URL, what came of it, and what its visit knows.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.http import TextResponse
from scrapy.settings import Settings

from crawlproj.crawls.admission import Admission
from crawlproj.items import Lease, Visit
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response
    from twisted.python.failure import Failure

# All of the project's downloader middlewares, where they stand there, but for those that need Redis.
ALONE = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DOWNLOADER_MIDDLEWARES": {
        "middlewares.robots.RobotsMiddleware": None,
        "middlewares.throttle.ThrottleMiddleware": None,
    },
    "SPIDER_MIDDLEWARES": {"middlewares.page.PageMiddleware": None},
    "ITEM_PIPELINES_BASE": {},
    "EXTENSIONS_BASE": {},
    "LOG_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 2,
}


class LeasedSpider(Spider):
    """Fetches what it is given, each request under a lease of its own."""

    name = "leased"

    async def start(self) -> AsyncIterator[Request]:
        self.crawler.signals.connect(self.scheduled, signal=signals.request_scheduled)
        worker = Worker.of(self.crawler)
        worker.admission = Admission.from_config({})
        for token, given in enumerate(json.loads(sys.argv[2])):
            lease = Lease(
                token=token,
                host="",
                attempts=given.get("attempts", 0),
                min_interval_ms=None,
                max_attempts=worker.config.max_attempts,
                expires_at=0,
            )
            worker.visits[token] = Visit(lease=lease, entry=None)
            meta = {"given": given["url"], **given.get("meta", {})}
            if given.get("leased", True):
                meta["lease"] = lease
            if "validators" in given:
                meta["validators"] = given["validators"]
            yield Request(
                given["url"], errback=self.failed, headers=given.get("headers"), meta=meta, dont_filter=True
            )

    def parse(self, response: Response) -> None:
        encoding = response.encoding if isinstance(response, TextResponse) else None
        self.tell(
            response.request, outcome=f"callback {response.status}", url=response.url, encoding=encoding
        )

    def failed(self, failure: Failure) -> None:
        error = failure.value
        self.tell(
            failure.request,
            outcome=type(error).__name__,
            reason=getattr(error, "reason", None),
            wait=getattr(error, "retry_after_ms", None),
            host=getattr(error, "host_incident", None),
            etag=(error.response.headers.get("ETag") or b"").decode() if hasattr(error, "response") else None,
        )

    def scheduled(self, request: Request) -> None:
        """Note what Scrapy's redirect middleware makes of a request."""
        if request.meta.get("redirect_times"):
            request.meta["redirected_with"] = _conditions(request)

    def tell(self, request: Request, **what: Any) -> None:
        """Print one line for the test."""
        lease = request.meta.get("lease")
        visit = Worker.of(self.crawler).visits[lease.token] if lease else None
        signal = request.meta.get("health_signal")
        what |= {
            "given": request.meta["given"],
            "text": visit.text.main if visit and visit.text else None,
            "sent_validators": visit.sent_validators if visit else None,
            "health_signal": signal.as_dict() if signal else None,
            "headers": _conditions(request),
            "redirected_with": request.meta.get("redirected_with"),
        }
        sys.stdout.write(json.dumps(what) + "\n")


def _conditions(request: Request) -> list[str]:
    return sorted(name.decode() for name in request.headers if name.startswith(b"If-"))


if __name__ == "__main__":
    settings = Settings()
    settings.setmodule("crawlproj.settings", priority="project")
    settings.setdict({**ALONE, **json.loads(sys.argv[1])}, priority="cmdline")
    process = CrawlerProcess(settings)
    process.crawl(LeasedSpider)
    process.start()
