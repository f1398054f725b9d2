"""Scrapy's redirects by `<meta http-equiv="refresh">`, without a look at every page's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware as ScrapyMetaRefreshMiddleware

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

SCANNED = 4096 * 4  #: bytes; Scrapy looks at 4096 characters, of four bytes at most


class MetaRefreshMiddleware(ScrapyMetaRefreshMiddleware):
    """Redirects as Scrapy does; a page whose bytes do not hold the word is not decoded for it.

    Settings: METAREFRESH_ENABLED, METAREFRESH_IGNORE_TAGS, METAREFRESH_MAXDELAY.
    """

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """Return the request for where the page leads, or the response."""
        begin = response.body[:SCANNED].lower()
        # In an encoding with null bytes the word may stand there in another form.
        if b"refresh" not in begin and b"\0" not in begin:
            return response
        return super().process_response(request, response)
