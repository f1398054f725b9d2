"""Scrapy's redirects by `<meta http-equiv="refresh">`, without a look at every page's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware as ScrapyMetaRefreshMiddleware
from scrapy.http import HtmlResponse
from scrapy.utils.response import get_meta_refresh

from crawlproj.frontier.canonical import normalise
from crawlproj.pages.responses import changed
from middlewares.redirect import leads

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

SCANNED = 4096 * 4  #: bytes; Scrapy looks at 4096 characters, of four bytes at most


class MetaRefreshMiddleware(ScrapyMetaRefreshMiddleware):
    """Redirects as Scrapy does; a page whose bytes do not hold the word is not decoded for it.

    These are pages and no redirects, other than in Scrapy: one that leads to itself, because it wants to be
    looked at again later (but followed once if it sets a cookie first), and one that leads nowhere. An answer
    outside of 2xx is what its status says.

    Settings: METAREFRESH_ENABLED, METAREFRESH_IGNORE_TAGS, METAREFRESH_MAXDELAY.
    """

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """Return the request for where the page leads, or the response."""
        if not 200 <= response.status < 300:  # noqa: PLR2004
            return response
        begin = response.body[:SCANNED]
        lower = begin.lower()
        # In an encoding with null bytes the word may stand there in another form.
        if b"refresh" not in lower and b"\0" not in lower:
            return response
        if not isinstance(response, HtmlResponse):
            return response
        # Only as much is decoded as is looked at.
        head = changed(response, HtmlResponse, body=begin) if len(response.body) > SCANNED else response
        try:
            url = get_meta_refresh(head, ignore_tags=self._ignore_tags)[1]
        except ValueError:  # it is no URL
            return response
        if not url or not leads(request.url, url) or _only_reloads(request, response, url):
            return response
        led = super().process_response(request, head)
        return response if led is head else led


def _only_reloads(request: Request, response: Response, url: str) -> bool:
    if normalise(url) != normalise(request.url):
        return False
    return "Set-Cookie" not in response.headers or bool(request.meta.get("redirect_times"))
