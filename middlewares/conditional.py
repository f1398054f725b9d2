"""Pages that an earlier run has stored are asked for only if they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawlproj.exceptions import NotModified, RetryLater
from crawlproj.pages.classify import NOT_MODIFIED, UNASKED
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


_HEADERS = (("etag", "If-None-Match"), ("last_modified", "If-Modified-Since"))


class ConditionalMiddleware:
    """Send the validators of the stored content, and end a 304 to them without a callback.

    The scheduler puts them into `request.meta["validators"]` (`etag`, `last_modified`); they go out byte
    for byte, unless the spider has set such a header itself. A 304 to them is raised as NotModified, which
    ends in the errback that every leased request has; the spider's own is not called. A 304 that nobody
    asked for is fetched again, once: later, as another attempt of the same URL, and only where it was the
    first. A 304 to a spider's own headers is the spider's.

    It stands nearer the wire than the redirect middleware and takes its headers off again, because those of
    one URL must not be sent to another.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it for this worker."""
        return cls(Worker.of(crawler))

    def process_request(self, request: Request) -> None:
        """Add the validators."""
        visit = self._worker.visit_of(request)
        validators = request.meta.get("validators")
        if visit is None or not validators or request.method != "GET" or _is_conditional(request):
            return
        for name, header in _HEADERS:
            value = _as_sent(validators.get(name))
            if value:
                request.headers[header] = value
                visit.sent_validators = True

    def process_response(self, request: Request, response: Response) -> Response:
        """Take the validators off again, and end a 304 that is not the spider's."""
        visit = self._worker.visit_of(request)
        if visit is None:
            return response
        ours = visit.sent_validators
        if ours:
            _take_off(request)
        if response.status == NOT_MODIFIED:
            if ours:
                raise NotModified(response)
            first = visit.lease.attempts == 0 and visit.lease.max_attempts > 1
            if first and not _is_conditional(request) and not request.meta.get("dont_retry", False):
                raise RetryLater(UNASKED)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Take the validators off again: a middleware may send the request elsewhere."""
        visit = self._worker.visit_of(request)
        if visit is not None and visit.sent_validators:
            _take_off(request)


def _is_conditional(request: Request) -> bool:
    return any(header in request.headers for _, header in _HEADERS)


def _take_off(request: Request) -> None:
    for _, header in _HEADERS:
        request.headers.pop(header, None)


def _as_sent(value: str | None) -> bytes | None:
    """Return a header's value as the bytes it came in, or None when it cannot be one."""
    if not value or not value.isprintable():
        return None
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return None
