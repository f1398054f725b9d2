"""The text of every page, read once, and the health signal that follows from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from scrapy.http import TextResponse

from crawlproj.pages.decode import is_declared
from crawlproj.pages.health import raw_signal
from crawlproj.pages.links import FLAT
from crawlproj.pages.responses import changed
from crawlproj.pages.text import extract
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawlproj.items import PageText, Visit

LARGE = 65_536  #: bytes of a page that takes more than a few ms to read


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

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        """Note the text and the health signal."""
        visit = self._worker.visit_of(request)
        if visit is None or not 200 <= response.status < 300:  # noqa: PLR2004
            return response
        header = response.headers.get("Content-Type")
        content_type = header.decode("latin-1") if header else None
        if len(response.body) > LARGE:
            return self._in_a_thread(request, response, visit, content_type)
        text = extract(response.body, content_type)
        return self._noted(request, response, visit, content_type, text)

    async def _in_a_thread(
        self, request: Request, response: Response, visit: Visit, content_type: str | None
    ) -> Response:
        """Read a large page beside the event loop, which has its turn between one step and the next."""
        text = await asyncio.to_thread(extract, response.body, content_type)
        return self._noted(request, response, visit, content_type, text)

    def _noted(
        self, request: Request, response: Response, visit: Visit, content_type: str | None, text: PageText
    ) -> Response:
        request.meta["health_signal"] = raw_signal(text)
        visit.text = text
        if text.flat:
            response.flags.append(FLAT)
        if text.encoding is None or not isinstance(response, TextResponse):
            return response
        said = text.encoding in (content_type or "").lower()  # mostly, and looked at most quickly
        if said or is_declared(response.body, content_type):
            return response
        return changed(response, type(response), encoding=text.encoding)
