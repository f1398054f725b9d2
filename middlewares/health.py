"""The text of every page, read once, and the health signal that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.http import TextResponse

from crawlproj.pages.decode import is_declared
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
    came from elsewhere than the frontier. A page that does not declare its encoding, or names one that
    no text has, comes to the spider with the one that its text was read in: Scrapy's own guess would be
    another, and take tens of ms, and of such a name it makes an error.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it for this worker."""
        return cls(Worker.of(crawler))

    def process_response(self, request: Request, response: Response) -> Response:
        """Note the text and the health signal."""
        visit = self._worker.visit_of(request)
        if visit is None or not 200 <= response.status < 300:  # noqa: PLR2004
            return response
        header = response.headers.get("Content-Type")
        content_type = header.decode("latin-1") if header else None
        text = extract(response.body, content_type)
        request.meta["health_signal"] = raw_signal(text)
        visit.text = text
        if text.encoding is None or not isinstance(response, TextResponse):
            return response
        said = text.encoding in (content_type or "").lower()  # mostly, and looked at most quickly
        if said or is_declared(response.body, content_type):
            return response
        return response.replace(encoding=text.encoding)
