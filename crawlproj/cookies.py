"""A cookie jar that does not grow with the hosts of a crawl."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from functools import lru_cache
from http.cookiejar import CookieJar as StandardJar
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached

from crawlproj.domains import registered_domain

if TYPE_CHECKING:
    from http.cookiejar import Cookie, CookiePolicy

    from scrapy import Request

MOST_OF_ONE = 180  # cookies of one registered domain, hosts that it makes up included; as in Chrome

Name: TypeAlias = tuple[str, str, str]  # domain, path, name


@lru_cache(maxsize=1024)
def owner(domain: str) -> str:
    """Return the registered domain that a host or a cookie's domain belongs to, or itself if none."""
    name = domain.removeprefix(".").lower()
    if "." not in name:
        name += ".local"  # as http.cookiejar calls such hosts
    return registered_domain(name, private=True) or name


class _Jar(StandardJar):
    """Keeps the cookies of the *most* registered domains that were used last."""

    def __init__(self, policy: CookiePolicy, most: int) -> None:
        super().__init__(policy)
        self._most = most
        self._owners: OrderedDict[str, dict[Name, None]] = OrderedDict()
        self._unswept: list[str] = []

    def set_cookie(self, cookie: Cookie) -> None:
        super().set_cookie(cookie)
        whose = owner(cookie.domain)
        names = self._owners.setdefault(whose, {})
        name = (cookie.domain, cookie.path, cookie.name)
        names.pop(name, None)
        names[name] = None
        self._owners.move_to_end(whose)
        if len(names) > MOST_OF_ONE:
            self.clear(*next(iter(names)))
        if len(self._owners) > self._most:
            for each in list(next(iter(self._owners.values()))):
                self.clear(*each)

    def clear(self, domain: str | None = None, path: str | None = None, name: str | None = None) -> None:
        super().clear(domain, path, name)
        if domain is None:
            self._owners.clear()
            return
        given = tuple(each for each in (domain, path, name) if each is not None)
        whose = owner(domain)
        names = self._owners.get(whose, {})
        for each in [each for each in names if each[: len(given)] == given]:
            del names[each]
        if not names:
            self._owners.pop(whose, None)
        # The standard library leaves the dictionaries that cookies were in.
        paths: dict[str, Any] = self._cookies.get(domain, {})  # type: ignore[attr-defined]
        if path is not None and not paths.get(path, True):
            del paths[path]
        if not paths:
            self._cookies.pop(domain, None)  # type: ignore[attr-defined]

    def use(self, host: str) -> None:
        """Note that a host is asked; drop what has expired of it, and of another one in turn."""
        whose = owner(host)
        if whose in self._owners:
            self._owners.move_to_end(whose)
            self._sweep(whose)
        if not self._unswept:
            self._unswept = list(self._owners)
        if self._unswept:
            self._sweep(self._unswept.pop())

    def _sweep(self, whose: str) -> None:
        now = int(time.time())
        for domain, path, name in list(self._owners.get(whose, ())):
            if self._cookies[domain][path][name].is_expired(now):  # type: ignore[attr-defined]
                self.clear(domain, path, name)


class BoundedCookieJar(CookieJar):
    """Scrapy's, for the *most* registered domains that were used last.

    Expired cookies go by and by: Scrapy looks for them in the whole jar, now and then, and lets it stand
    still for that.
    """

    def __init__(self, most: int) -> None:
        super().__init__(check_expired_frequency=sys.maxsize)
        lock = self.jar._cookies_lock  # type: ignore[attr-defined]
        self.jar: _Jar = _Jar(self.policy, most)
        self.jar._cookies_lock = lock  # type: ignore[attr-defined]

    def add_cookie_header(self, request: Request) -> None:
        """Give the request the cookies that are for it."""
        host = urlparse_cached(request).hostname
        if host and self.jar._owners:
            self.jar.use(host)
        super().add_cookie_header(request)
