"""Scrapy's cookies, shared by the workers of a crawl, without its look-up on the Internet."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware as ScrapyCookiesMiddleware
from scrapy.utils.httpobj import urlparse_cached

from crawlproj.cookies.jar import BoundedCookieJar
from crawlproj.cookies.shared import SharedCookies, is_session
from crawlproj.domains import is_public
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from http.cookiejar import Cookie

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.http.cookies import CookieJar

    from crawlproj.cookies.jar import Name
    from crawlproj.cookies.shared import Session

    Changes: TypeAlias = dict[Name, Cookie | None]


LARGEST = 4096  #: characters of a cookie's name and value; browsers take no larger one, and servers neither


class CookiesMiddleware(ScrapyCookiesMiddleware):
    """Keeps cookies as Scrapy does, by the list of public suffixes that comes with tldextract.

    Scrapy fetches a newer list at the first cookie that names a domain: from somebody else's server,
    past the throttle, and with the event loop standing still meanwhile. Its jars keep what every host of
    a crawl has set; ours, one for each value of the meta key `cookiejar`, that of the domains used last.
    The workers of a run share them, but for jars whose key means nothing to another process.

    Settings: COOKIES_ENABLED, COOKIES_DEBUG, COOKIES_MAX_DOMAINS, COOKIES_SHARED.
    """

    jars: defaultdict[Any, BoundedCookieJar]  # type: ignore[assignment]
    _worker: Worker
    _shared: SharedCookies | None = None  #: from the first leases on

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it. Raises NotConfigured without COOKIES_ENABLED."""
        self = super().from_crawler(crawler)
        self._worker = Worker.of(crawler)
        self.jars = defaultdict(partial(BoundedCookieJar, self._worker.config.cookies_max_domains))
        if self._worker.config.cookies_shared:
            self._worker.before_issue.append(self._look)
        return self

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:  # type: ignore[override]
        """Give the request its cookies, those that another worker was given among them."""
        session, shared = request.meta.get("cookiejar"), self._shared
        if shared is None or request.meta.get("dont_merge_cookies", False) or not is_session(session):
            super().process_request(request)
            return None
        if request.cookies or shared.has_news(session, _host(request)):
            return self._request_with_news(request, session, shared)
        super().process_request(request)
        return None

    async def _request_with_news(self, request: Request, session: Session, shared: SharedCookies) -> None:
        jar = self.jars[session]
        if shared.has_news(session, _host(request)):
            await shared.read(session, _host(request), jar)
        with jar.noting() as changes:
            super().process_request(request)
        if changes:
            await shared.write(session, changes)

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        """Keep the cookies that an answer sets, and tell the other workers before anybody reads its links."""
        if "Set-Cookie" not in response.headers:
            return response
        session, shared = request.meta.get("cookiejar"), self._shared
        if shared is None or not is_session(session):
            super().process_response(request, response)
            return response
        with self.jars[session].noting() as changes:
            super().process_response(request, response)
        return self._told(response, session, shared, changes) if changes else response

    async def _told(
        self, response: Response, session: Session, shared: SharedCookies, changes: Changes
    ) -> Response:
        await shared.write(session, changes)
        return response

    async def _look(self) -> None:
        """Ask for news of other workers, when this one has been given leases."""
        if self._shared is None:
            frontier = self._worker.frontier
            self._shared = SharedCookies(
                self._worker.scripts, frontier.prefix, most=self._worker.config.cookies_max_domains
            )
        await self._shared.look()

    def _process_cookies(self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request) -> None:
        host = _host(request)
        for cookie in cookies:
            if len(cookie.name) + len(cookie.value or "") > LARGEST:
                continue
            domain = cookie.domain.removeprefix(".")
            if domain and is_public(domain):  # no cookie is for all of it
                if domain != host:
                    continue
                cookie.domain = host  # for this host alone
            jar.set_cookie_if_ok(cookie, request)


def _host(request: Request) -> str:
    return (urlparse_cached(request).hostname or "").lower()
