"""Keeps out what the crawl's lists and its depth do not let in, when it is about to be fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawlproj.exceptions import Disregarded
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class AdmissionMiddleware:
    """Disregards leased URLs that the crawl would not let in now, by whatever way they came in.

    Settings: CRAWL_ALLOW, CRAWL_DENY, MAX_DEPTH, as they were when the crawl was created.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it."""
        return cls(Worker.of(crawler))

    def process_request(self, request: Request) -> None:
        """Raise Disregarded for a URL that stays out."""
        visit = self._worker.visit_of(request)
        if visit is None or self._worker.admission.is_open:
            return
        page = visit.entry
        why = self._worker.admission.refusal(page.wire, page.depth, embed=page.embeds > 0)
        if why is not None:
            visit.detail = why
            raise Disregarded("filtered")
