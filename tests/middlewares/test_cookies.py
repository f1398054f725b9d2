"""Cookies go where they came from, and no list is fetched to know that."""

from __future__ import annotations

import time
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from crawlproj.cookies.jar import MOST_OF_ONE
from crawlproj.domains import is_public
from middlewares.cookies import CookiesMiddleware


def cookies(**settings: Any) -> CookiesMiddleware:
    """Return the middleware of a crawl with our settings."""
    ours = Settings()
    ours.setmodule("crawlproj.settings")
    ours.update({"TWISTED_REACTOR_ENABLED": False, **settings})
    crawler = get_crawler(Spider, settings_dict=ours.copy_to_dict())
    crawler.spider = crawler._create_spider("cookies")
    return CookiesMiddleware.from_crawler(crawler)


def visit(middleware: CookiesMiddleware, url: str, *set_cookies: str, **meta: Any) -> bytes | None:
    """Ask for a page, return the Cookie header, and let the answer set cookies."""
    request = Request(url, meta=meta)
    middleware.process_request(request)
    middleware.process_response(request, Response(url, headers={"Set-Cookie": list(set_cookies)}))
    return request.headers.get("Cookie")


def held(middleware: CookiesMiddleware, jar: Any = None) -> dict[str, int]:
    """Return how many cookies a jar has of each domain, empty containers included."""
    return {domain: sum(map(len, paths.values())) for domain, paths in middleware.jars[jar]._cookies.items()}


def sent(set_cookie: str, first: str, second: str) -> bytes | None:
    """Return the Cookie header of a request to *second* after *first* was answered with *set_cookie*."""
    middleware = cookies()
    request = Request(first)
    middleware.process_request(request)
    middleware.process_response(request, Response(first, headers={"Set-Cookie": set_cookie}))
    later = Request(second)
    middleware.process_request(later)
    return later.headers.get("Cookie")


@pytest.mark.parametrize(
    ("set_cookie", "first", "second", "header"),
    [
        ("a=1", "http://site.test/", "http://site.test/x", b"a=1"),
        ("a=1", "http://site.test/", "http://other.test/", None),
        ("a=1; Domain=site.co.uk", "http://www.site.co.uk/", "http://blog.site.co.uk/", b"a=1"),
        ("a=1; Domain=co.uk", "http://site.co.uk/", "http://other.co.uk/", None),
        ("a=1; Domain=github.io", "http://me.github.io/", "http://you.github.io/", None),
        ("a=1; Domain=.other.test", "http://site.test/", "http://other.test/", None),
    ],
)
def test_a_cookie_stays_with_its_domain(
    set_cookie: str, first: str, second: str, header: bytes | None
) -> None:
    """Hosts of one registered domain may share; a public suffix never does."""
    assert sent(set_cookie, first, second) == header


def test_the_list_is_the_one_that_came_along(no_network: None) -> None:
    """Looking a domain up connects to nobody; `no_network` would refuse it."""
    assert is_public("co.uk")
    assert not is_public("site.co.uk")


def test_a_jar_keeps_the_cookies_of_the_domains_used_last() -> None:
    """A crawl of many hosts does not grow by each; one that is asked again and again stays logged in."""
    middleware = cookies(COOKIES_MAX_DOMAINS=3)
    for number in range(50):
        visit(middleware, f"http://www.host{number}.test/", "a=1", "b=2; Path=/x")
        assert visit(middleware, "http://login.test/", *(["s=1"] if not number else [])) == (
            b"s=1" if number else None
        )
    assert held(middleware) == {"www.host48.test": 2, "www.host49.test": 2, "login.test": 1}
    assert len(middleware.jars[None].jar._owners) == 3


def test_hosts_of_one_registered_domain_are_one() -> None:
    """A site with many hosts counts once, and its cookies are bounded, too: the oldest go."""
    middleware = cookies(COOKIES_MAX_DOMAINS=2)
    visit(middleware, "http://other.test/", "a=1")
    for number in range(MOST_OF_ONE + 20):
        visit(middleware, f"http://h{number}.site.co.uk/", "a=1")
    hosts = held(middleware)
    assert hosts.pop("other.test") == 1
    assert list(hosts) == [f"h{number}.site.co.uk" for number in range(20, MOST_OF_ONE + 20)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "me.github.io"])
def test_what_nobody_registered_counts_by_itself(host: str) -> None:
    """Addresses, single names, and names that companies give away; the one in use stays."""
    middleware = cookies(COOKIES_MAX_DOMAINS=2)
    visit(middleware, f"http://{host}/", "a=1")
    for number in range(3):
        visit(middleware, f"http://you{number}.github.io/", "a=1")
        assert visit(middleware, f"http://{host}/") == b"a=1"
    assert len(held(middleware)) == 2


def test_each_jar_has_its_own_bound() -> None:
    """Sessions by the meta key `cookiejar` stay apart, and one does not push another's cookies out."""
    middleware = cookies(COOKIES_MAX_DOMAINS=1)
    for session in ("one", "two"):
        visit(middleware, "http://site.test/", f"who={session}", cookiejar=session)
    visit(middleware, "http://other.test/", "a=1", cookiejar="two")
    assert visit(middleware, "http://site.test/", cookiejar="one") == b"who=one"
    assert visit(middleware, "http://site.test/", cookiejar="two") is None
    assert visit(middleware, "http://site.test/") is None


def test_expired_cookies_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of hosts that nobody asks any more, and with all that held them."""
    middleware = cookies()
    for number in range(20):
        visit(middleware, f"http://host{number}.test/", "a=1; Max-Age=60", "b=1; Max-Age=60; Path=/x")
    visit(middleware, "http://site.test/", "s=1", "t=1; Max-Age=60")
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert visit(middleware, "http://site.test/") == b"s=1"
    for _ in range(45):
        visit(middleware, "http://other.test/")
    assert held(middleware) == {"site.test": 1}
    assert list(middleware.jars[None].jar._owners) == ["site.test"]


def test_a_cookie_that_is_deleted_leaves_nothing() -> None:
    """Neither by the server, nor by a spider that clears the jar."""
    middleware = cookies()
    visit(middleware, "http://site.test/", "a=1")
    visit(middleware, "http://site.test/", "a=; Max-Age=0")
    assert held(middleware) == {}
    visit(middleware, "http://site.test/", "a=1", "b=1; Path=/x")
    jar = middleware.jars[None]
    jar.clear("site.test", "/x")
    assert held(middleware) == {"site.test": 1}
    jar.clear_session_cookies()
    assert (held(middleware), dict(jar.jar._owners)) == ({}, {})
    visit(middleware, "http://site.test/", "a=1")
    jar.clear()
    assert (held(middleware), dict(jar.jar._owners)) == ({}, {})
