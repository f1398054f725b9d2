"""Cookies go where they came from, and no list is fetched to know that."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from middlewares.cookies import CookiesMiddleware, is_public


def sent(set_cookie: str, first: str, second: str) -> bytes | None:
    """Return the Cookie header of a request to *second* after *first* was answered with *set_cookie*."""
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("cookies")
    middleware = CookiesMiddleware.from_crawler(crawler)
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
