"""Scrapy's redirects by status, without those that lead nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy.downloadermiddlewares.redirect import RedirectMiddleware as ScrapyRedirectMiddleware
from w3lib.url import safe_url_string

from crawlproj.exceptions import BadUrl
from crawlproj.frontier.canonical import normalise

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class RedirectMiddleware(ScrapyRedirectMiddleware):
    """Redirects as Scrapy does; an answer whose Location is no page is a failure with its status.

    That is an empty one, one with another scheme than http and https, and one that is no URL or too long:
    Scrapy would ask for the page itself again, or break.

    Settings: REDIRECT_ENABLED, REDIRECT_MAX_TIMES, REDIRECT_PRIORITY_ADJUST.
    """

    def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        """Return the request for where the answer leads, or the response."""
        location = response.headers.get("Location")
        if location is None or not leads(request.url, location):
            return response
        return super().process_response(request, response)


def leads(url: str, location: bytes | str) -> bool:
    """Return whether *location*, on the page at *url*, is somewhere to go."""
    if not location.strip():
        return False
    try:
        normalise(urljoin(url, safe_url_string(location)))
    except (BadUrl, ValueError):
        return False
    return True
