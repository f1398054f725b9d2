"""Compressed bodies: a large one is unpacked beside the event loop, one that ends early is no page."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.responsetypes import responsetypes

from crawlproj.pages.compression import NotAsSaid, TooMuch, codings_of, unpacking
from crawlproj.pages.responses import changed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from typing import Any

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawlproj.pages.compression import Unpacked

logger = logging.getLogger(__name__)

TRUNCATED = "truncated"  #: flag of a response that is not all there, and that nobody wants in part
DATALOSS = "dataloss"  #: Scrapy's flag of one that is wanted all the same
AT_ONCE = 1024 * 1024  #: bytes; unpacking so many takes less than 10 ms, and handing it to a thread 0.1


class CompressionMiddleware(HttpCompressionMiddleware):
    """Unpack bodies as Scrapy does, and say of which ones the end is missing.

    Scrapy's own returns what there is without a word. The retry middleware takes the flag for what a short
    Content-Length is: a failure that is tried again. A body that is not what its header says is a failure,
    too, but that of an answer which is no page anyhow: its status says what is wrong. What becomes large is
    unpacked in a thread.

    Settings: COMPRESSION_ENABLED, DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE, DOWNLOAD_FAIL_ON_DATALOSS.
    Meta: download_maxsize, download_warnsize, download_fail_on_dataloss.
    Stats: httpcompression/response_bytes, httpcompression/response_count, httpcompression/truncated.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._maxsize = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        self._warnsize = crawler.settings.getint("DOWNLOAD_WARNSIZE")
        self._fail_on_dataloss = crawler.settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        """Unpack the body, and flag it when its stream does not end."""
        headers = response.headers.getlist("Content-Encoding")
        if not headers or request.method == "HEAD":
            return response
        try:
            codings = codings_of(headers)
            if not codings:
                return response
            work = unpacking(response.body, codings, request.meta.get("download_maxsize", self._maxsize))
            unpacked = _some(work)
        except (TooMuch, NotAsSaid) as exc:
            return _unusable(response, exc)
        if unpacked is None:
            return self._later(request, response, work)
        return self._unpacked(request, response, unpacked)

    async def _later(
        self, request: Request, response: Response, work: Generator[int, None, Unpacked]
    ) -> Response:
        try:
            unpacked = await asyncio.to_thread(_all, work)
        except (TooMuch, NotAsSaid) as exc:
            return _unusable(response, exc)
        return self._unpacked(request, response, unpacked)

    def _unpacked(self, request: Request, response: Response, unpacked: Unpacked) -> Response:
        headers = response.headers.copy()
        del headers["Content-Encoding"]
        kind = responsetypes.from_args(headers=headers, url=response.url, body=unpacked.body)
        flags = list(response.flags)
        size, warnsize = len(unpacked.body), request.meta.get("download_warnsize", self._warnsize)
        if len(response.body) < warnsize <= size:
            logger.warning(
                "%s unpacks to %d bytes, more than DOWNLOAD_WARNSIZE (%d)", response, size, warnsize
            )
        assert self.stats is not None
        self.stats.inc_value("httpcompression/response_bytes", size)
        self.stats.inc_value("httpcompression/response_count")
        if not unpacked.whole:
            self.stats.inc_value("httpcompression/truncated")
            fails = request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss)
            flags.append(TRUNCATED if fails and _is_page(response) else DATALOSS)
        return changed(response, kind, body=unpacked.body, headers=headers, flags=flags)


def _unusable(response: Response, error: Exception) -> Response:
    """Return an answer that is no page anyhow as it came. Raises IgnoreRequest for one that would be one."""
    if _is_page(response):
        raise IgnoreRequest(f"The body of {response} cannot be used: {error}") from error
    return response


def _is_page(response: Response) -> bool:
    return 200 <= response.status < 300  # noqa: PLR2004


def _some(work: Generator[int, None, Unpacked]) -> Unpacked | None:
    """Do what may be done while the event loop waits. None: there is more."""
    size = 0
    try:
        while size < AT_ONCE:
            size += next(work)
    except StopIteration as end:
        result: Unpacked = end.value
        return result
    return None


def _all(work: Generator[int, None, Unpacked]) -> Unpacked:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Unpacked = end.value
            return result
