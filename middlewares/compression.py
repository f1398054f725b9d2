"""A compressed body that ends early is no page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Response

from crawlproj.pages.compression import is_cut

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

TRUNCATED = "truncated"  #: flag of a response that is not all there, and that nobody wants in part
DATALOSS = "dataloss"  #: Scrapy's flag of one that is wanted all the same


class CompressionMiddleware(HttpCompressionMiddleware):
    """Decode bodies as Scrapy does, and say of which ones the end is missing.

    Scrapy's own returns what there is without a word. The retry middleware takes the flag for what a short
    Content-Length is: a failure that is tried again.

    Settings: COMPRESSION_ENABLED, DOWNLOAD_MAXSIZE, DOWNLOAD_FAIL_ON_DATALOSS.
    Meta: download_fail_on_dataloss.
    Stats: httpcompression/truncated.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._fail_on_dataloss = crawler.settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """Decode the body and flag it when its stream does not end."""
        # Scrapy takes off the header what it decodes.
        encodings = b",".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
        decoded = super().process_response(request, response)
        if decoded is response or not isinstance(decoded, Response):
            return decoded
        outermost = encodings.rpartition(",")[2].strip().lower()
        if not is_cut(response.body, outermost, len(decoded.body)):
            return decoded
        assert self.stats is not None
        self.stats.inc_value("httpcompression/truncated")
        fails = request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss)
        return decoded.replace(flags=[*decoded.flags, TRUNCATED if fails else DATALOSS])
