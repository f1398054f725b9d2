"""Another attempt follows later, from the frontier, and not at once in this process."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import ResponseDataLossError
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from crawlproj.exceptions import RetryLater
from crawlproj.items import Lease
from crawlproj.pages.failure import explain, explain_status
from crawlproj.pages.retry_after import asked_wait_ms
from middlewares.compression import TRUNCATED

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from crawlproj.pages.failure import Failure

logger = logging.getLogger(__name__)

PARTIAL = 206
_RANGE = re.compile(rb"\s*bytes\s+(\d{1,18})-(\d{1,18})/(\d{1,18})", re.IGNORECASE)


class RetryMiddleware:
    """Hand a failed request back to the frontier, as long as it has attempts left.

    It takes the slot of Scrapy's own and its settings and meta keys, but for these: MAX_ATTEMPTS says how
    often, and the frontier when. As there, a status in RETRY_HTTP_CODES is retried whatever
    `handle_httpstatus_list` says. Which exceptions are retried `crawlproj.pages.failure` knows, unless
    RETRY_EXCEPTIONS has been set. Requests that came from elsewhere than the frontier pass untouched.

    Settings: RETRY_ENABLED, RETRY_HTTP_CODES, RETRY_EXCEPTIONS, MAX_ATTEMPTS.
    Meta: dont_retry, max_retry_times.
    Stats: retry/count, retry/reason_count/<reason>, retry/max_reached.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._stats = crawler.stats
        self._enabled = settings.getbool("RETRY_ENABLED")
        self._statuses = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._exceptions = _chosen_exceptions(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it also when retries are off: what is not all there is no page even then."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Refuse an answer that a later attempt may better."""
        lease = request.meta.get("lease")
        if not isinstance(lease, Lease):
            return response
        if TRUNCATED in response.flags or _is_a_part(request, response):
            cut = ResponseDataLossError("the body is not all there")
            self._retry(request, lease, explain(cut))
            raise cut
        if response.status in self._statuses:
            wait = asked_wait_ms(response.status, response.headers, time.time())
            self._retry(request, lease, explain_status(response.status), wait)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Refuse a failure that a later attempt may better."""
        lease = request.meta.get("lease")
        if not isinstance(lease, Lease):
            return
        why = explain(exception)
        chosen = self._exceptions
        if why.retryable if chosen is None else isinstance(exception, chosen):
            self._retry(request, lease, why, cause=exception)

    def _retry(
        self,
        request: Request,
        lease: Lease,
        why: Failure,
        wait_ms: int | None = None,
        cause: Exception | None = None,
    ) -> None:
        """Raise RetryLater, unless nobody wants another attempt."""
        most = request.meta.get("max_retry_times")
        if not self._enabled or request.meta.get("dont_retry", False):
            return
        if lease.attempts + 1 >= lease.max_attempts or (most is not None and lease.attempts >= most):
            self._stats.inc_value("retry/max_reached")
            logger.debug("Gave up on %s after %d attempts: %s", request, lease.attempts + 1, why.reason)
            return
        self._stats.inc_value("retry/count")
        self._stats.inc_value(f"retry/reason_count/{why.reason}")
        logger.debug("Retrying %s later (%s)", request, why.detail or why.reason)
        raise RetryLater(why.reason, retry_after_ms=wait_ms, host_incident=why.host_incident) from cause


def _is_a_part(request: Request, response: Response) -> bool:
    """Return whether a server sends a part of a page, though nobody has asked for one."""
    if response.status != PARTIAL or "Range" in request.headers:
        return False
    said = _RANGE.match(response.headers.get("Content-Range") or b"")
    return said is not None and (int(said[1]), int(said[2]) + 1) != (0, int(said[3]))


def _chosen_exceptions(settings: BaseSettings) -> tuple[type[BaseException], ...] | None:
    """Return the exceptions that somebody chose, or None where it is Scrapy's default list."""
    chosen = settings.getlist("RETRY_EXCEPTIONS")
    if chosen == default_settings.RETRY_EXCEPTIONS:
        return None
    return tuple(load_object(each) for each in chosen)
