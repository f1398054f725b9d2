"""Scrapy's cookies, without its look-up on the Internet."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Self

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware as ScrapyCookiesMiddleware
from scrapy.utils.httpobj import urlparse_cached

from crawlproj.cookies import BoundedCookieJar
from crawlproj.domains import is_public
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from http.cookiejar import Cookie

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http.cookies import CookieJar


LARGEST = 4096  #: characters of a cookie's name and value; browsers take no larger one, and servers neither


class CookiesMiddleware(ScrapyCookiesMiddleware):
    """Keeps cookies as Scrapy does, by the list of public suffixes that comes with tldextract.

    Scrapy fetches a newer list at the first cookie that names a domain: from somebody else's server,
    past the throttle, and with the event loop standing still meanwhile. Its jars keep what every host of
    a crawl has set; ours, one for each value of the meta key `cookiejar`, that of the domains used last.

    Settings: COOKIES_ENABLED, COOKIES_DEBUG, COOKIES_MAX_DOMAINS.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it. Raises NotConfigured without COOKIES_ENABLED."""
        self = super().from_crawler(crawler)
        self.jars = defaultdict(partial(BoundedCookieJar, Worker.of(crawler).config.cookies_max_domains))
        return self

    def _process_cookies(self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request) -> None:
        host = (urlparse_cached(request).hostname or "").lower()
        for cookie in cookies:
            if len(cookie.name) + len(cookie.value or "") > LARGEST:
                continue
            domain = cookie.domain.removeprefix(".")
            if domain and is_public(domain):  # no cookie is for all of it
                if domain != host:
                    continue
                cookie.domain = host  # for this host alone
            jar.set_cookie_if_ok(cookie, request)
