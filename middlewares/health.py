"""The text of every page, read once, and the health signal that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawlproj.items import Lease
from crawlproj.pages.health import raw_signal
from crawlproj.pages.text import extract
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class HealthMiddleware:
    """Read the text of a page that is about to reach the spider.

    It stands behind decompression, redirects and retries. Spiders find the signal in
    `response.meta["health_signal"]`. An answer outside of 2xx has none, and neither has a request that
    came from elsewhere than the frontier.
    """

    def __init__(self, worker: Worker) -> None:
        self._visits = worker.visits

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it for this worker."""
        return cls(Worker.of(crawler))

    def process_response(self, request: Request, response: Response) -> Response:
        """Note the text and the health signal."""
        lease = request.meta.get("lease")
        if not isinstance(lease, Lease) or not 200 <= response.status < 300:  # noqa: PLR2004
            return response
        content_type = response.headers.get("Content-Type")
        text = extract(response.body, content_type.decode("latin-1") if content_type else None)
        request.meta["health_signal"] = raw_signal(text)
        visit = self._visits.get(lease.token)
        if visit is not None:
            visit.text = text
        return response
