"""Cookies that the workers of a run share, in a real Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redis import Redis
from scrapy import Request
from scrapy.http import Response

from crawlproj.connections import open_redis
from crawlproj.cookies.jar import MOST_OF_ONE, BoundedCookieJar
from crawlproj.cookies.shared import SharedCookies, is_session
from crawlproj.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

HOST = "www.site.test"


class Worker:
    """One worker's jar, and what it shares."""

    def __init__(self, scripts: Scripts, most: int = 100) -> None:
        self.jar = BoundedCookieJar(1000)
        self.shared = SharedCookies(scripts, "frontier:{f}:", most=most)

    async def is_told(self, *set_cookies: str, host: str = HOST) -> int:
        """Get an answer; return how many cookies were news."""
        url = f"http://{host}/"
        with self.jar.noting() as changes:
            self.jar.extract_cookies(Response(url, headers={"Set-Cookie": list(set_cookies)}), Request(url))
        await self.shared.write(None, changes)
        return len(changes)

    async def sends(self, host: str = HOST) -> str:
        """Ask for news and return the Cookie header of a request."""
        await self.shared.look()
        if self.shared.has_news(None, host):
            await self.shared.read(None, host, self.jar)
        request = Request(f"http://{host}/")
        self.jar.add_cookie_header(request)
        return "; ".join(sorted((request.headers.get("Cookie") or b"").decode().split("; ")))


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Callable[..., Worker]]:
    """Make workers of one run."""
    redis = open_redis(redis_url)
    scripts = Scripts(redis, "test")
    yield lambda most=100: Worker(scripts, most)
    await scripts.close()
    await redis.aclose()


async def test_what_one_is_told_all_send(worker: Callable[..., Worker]) -> None:
    """New cookies, changed ones and deleted ones, in both directions, and to who comes later."""
    one, two = worker(), worker()
    await one.is_told("a=1", "b=1; Domain=site.test", "long=1; Max-Age=9999")
    assert await two.sends() == "a=1; b=1; long=1"
    assert await two.sends("blog.site.test") == "b=1"
    await two.is_told("a=2", "long=; Max-Age=0")
    assert await one.sends() == await worker().sends() == "a=2; b=1"
    await one.is_told("c=3")
    assert await one.sends() == await two.sends() == "a=2; b=1; c=3"


async def test_a_cookie_goes_to_no_other_site(worker: Callable[..., Worker]) -> None:
    """Neighbours, parents and addresses among them."""
    one, two = worker(), worker()
    await one.is_told("a=1", "b=1; Domain=other.test")
    await one.is_told("c=1", host="127.0.0.1")
    for host in ("other.test", "site.test", "127.0.0.2", "blog.site.test"):
        assert await two.sends(host) == ""
    assert await two.sends("127.0.0.1") == "c=1"


async def test_what_is_no_news_is_not_told(worker: Callable[..., Worker]) -> None:
    """The same cookie once more, for a few seconds longer, and the deletion of one that is not there."""
    one, two = worker(), worker()
    assert await one.is_told("a=1; Max-Age=1000") == 1
    assert await one.is_told("a=1; Max-Age=1010", "b=; Max-Age=0") == 0
    assert await one.is_told("a=1; Max-Age=9999") == 1
    await two.shared.look()
    assert two.shared.has_news(None, HOST)
    assert not two.shared.has_news("session", HOST)
    assert not one.shared.has_news(None, HOST)


async def test_sessions_stay_apart(worker: Callable[..., Worker]) -> None:
    """They are told by what they are called; an object means nothing elsewhere."""
    one, two = worker(), worker()
    with one.jar.noting() as changes:
        url = f"http://{HOST}/"
        one.jar.extract_cookies(Response(url, headers={"Set-Cookie": "a=1"}), Request(url))
    await one.shared.write("me", changes)
    await two.shared.look()
    assert two.shared.has_news("me", HOST)
    assert not two.shared.has_news(None, HOST)
    assert [is_session(each) for each in (None, 1, "a", object(), (1,))] == [True, True, True, False, False]


async def test_what_is_shared_does_not_grow(worker: Callable[..., Worker], redis_url: str) -> None:
    """Neither with the domains of a crawl, nor with the cookies of one; the newest are kept."""
    one, two = worker(3), worker(3)
    for number in range(MOST_OF_ONE + 20):
        await one.is_told(f"a{number}=1")
    assert len((await two.sends()).split("; ")) == MOST_OF_ONE
    for number in range(9):
        await one.is_told("a=1", host=f"host{number}.test")
    assert await two.sends("host8.test") == "a=1"
    with Redis.from_url(redis_url) as redis:
        assert redis.hlen("frontier:{f}:cookies") == redis.zcard("frontier:{f}:cookie_turns") == 3


async def test_a_server_that_has_lost_everything_begins_anew(
    worker: Callable[..., Worker], redis_url: str
) -> None:
    """Workers keep what they have, and hear of what is new."""
    one, two = worker(), worker()
    await one.is_told("a=1")
    await one.is_told("a=2")
    assert await two.sends() == "a=2"
    with Redis.from_url(redis_url) as redis:
        redis.flushdb()
    assert await two.sends() == "a=2"
    await one.is_told("a=3")
    assert await two.sends() == "a=3"
