"""A cookie jar that does not grow with the hosts of a crawl."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from contextlib import contextmanager
from functools import lru_cache
from http.cookiejar import CookieJar as StandardJar
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached

from crawlproj.domains import registered_domain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from http.cookiejar import Cookie, CookiePolicy

    from scrapy import Request

MOST_OF_ONE = 180  # cookies of one registered domain, hosts that it makes up included; as in Chrome

LITTLE_LONGER = 60  # seconds

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
        self.changes: dict[Name, Cookie | None] | None = (
            None  #: what has changed, while somebody wants to know
        )

    def set_cookie(self, cookie: Cookie) -> None:
        name = (cookie.domain, cookie.path, cookie.name)
        if self.changes is not None and _differs(self._held(*name), cookie):
            self.changes[name] = cookie
        super().set_cookie(cookie)
        whose = owner(cookie.domain)
        names = self._owners.setdefault(whose, {})
        names.pop(name, None)
        names[name] = None
        self._owners.move_to_end(whose)
        if len(names) > MOST_OF_ONE:
            self._drop(*next(iter(names)))
        if len(self._owners) > self._most:
            for each in list(next(iter(self._owners.values()))):
                self._drop(*each)

    def clear(self, domain: str | None = None, path: str | None = None, name: str | None = None) -> None:
        if self.changes is not None and domain and path and name and self._held(domain, path, name):
            self.changes[domain, path, name] = None
        self._drop(domain, path, name)

    def _held(self, domain: str, path: str, name: str) -> Cookie | None:
        found: Cookie | None = self._cookies.get(domain, {}).get(path, {}).get(name)  # type: ignore[attr-defined]
        return found

    def names_of(self, whose: str) -> list[Name]:
        """Return the names of the cookies of one registered domain."""
        return list(self._owners.get(whose, ()))

    def _drop(self, domain: str | None = None, path: str | None = None, name: str | None = None) -> None:
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
                self._drop(domain, path, name)


def _differs(old: Cookie | None, new: Cookie) -> bool:
    """Return whether others should hear of a cookie; that it lasts a little longer is no news."""
    if old is None or old.value != new.value:
        return True
    if old.expires is None or new.expires is None:
        return old.expires is not new.expires
    return abs(new.expires - old.expires) > LITTLE_LONGER


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

    @contextmanager
    def noting(self) -> Iterator[dict[Name, Cookie | None]]:
        """Note what changes in the block: cookies that are new or have another value, None for those gone."""
        changes: dict[Name, Cookie | None] = {}
        self.jar.changes = changes
        try:
            yield changes
        finally:
            self.jar.changes = None

    def replace(self, whose: str, cookies: Iterable[Cookie], *, keep: bool) -> None:
        """Take *cookies* for those of a registered domain; *keep*: others that are there stay."""
        left = {} if keep else dict.fromkeys(self.jar.names_of(whose))
        for cookie in cookies:
            left.pop((cookie.domain, cookie.path, cookie.name), None)
            self.jar.set_cookie(cookie)
        for name in left:
            self.jar.clear(*name)

    def add_cookie_header(self, request: Request) -> None:
        """Give the request the cookies that are for it."""
        host = urlparse_cached(request).hostname
        if host and self.jar._owners:
            self.jar.use(host)
        super().add_cookie_header(request)
