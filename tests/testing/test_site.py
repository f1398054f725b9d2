"""The made-up site answers as it was told and remembers who asked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crawlproj.testing.site import Site


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


async def test_a_page_is_answered_as_it_was_added(site: Site, client: aiohttp.ClientSession) -> None:
    """Text is HTML in UTF-8 unless the headers say otherwise; a path not added is 404."""
    plain = site.add("/a", "Grüße")
    other = site.add("/b", b"\xe9", status=503, headers={"Content-Type": "text/plain", "Retry-After": "9"})
    async with client.get(plain) as answer:
        assert (answer.status, answer.content_type, await answer.text()) == (200, "text/html", "Grüße")
    async with client.get(other) as answer:
        assert (answer.status, answer.headers["Retry-After"], await answer.read()) == (503, "9", b"\xe9")
    async with client.get(site.url + "/robots.txt") as answer:
        assert answer.status == 404


async def test_the_most_exact_path_answers(site: Site, client: aiohttp.ClientSession) -> None:
    """A page with a query beats one without, a whole path beats a beginning, a host beats none."""
    second = site.host(2)
    for path in ("/*", "/a*", "/a", "/a?b=1"):
        site.add(path, path)
    site.add("/a", "second", host="127.0.0.2")
    wanted = {
        site.url + "/a?b=1": "/a?b=1",
        site.url + "/a?b=2": "/a",
        site.url + "/abc": "/a*",
        site.url + "/z": "/*",
        second + "/a": "second",
        second + "/abc": "/a*",
    }
    for url, text in wanted.items():
        async with client.get(url) as answer:
            assert await answer.text() == text, url


async def test_a_function_answers_with_text_bytes_or_a_response(
    site: Site, client: aiohttp.ClientSession
) -> None:
    """A handler sees the request, may wait, and may write the response itself."""

    async def later(request: web.Request) -> bytes:
        await asyncio.sleep(0)
        return request.query["x"].encode()

    def whole(request: web.Request) -> web.Response:
        return web.Response(status=418, text=request.method)

    async with client.get(site.add("/later", later) + "?x=7") as answer:
        assert await answer.read() == b"7"
    async with client.post(site.add("/whole", whole)) as answer:
        assert (answer.status, await answer.text()) == (418, "POST")


async def test_raw_bytes_are_sent_as_they_are(site: Site, client: aiohttp.ClientSession) -> None:
    """An answer that breaks HTTP can be made: here the body is shorter than it says."""
    url = site.add_raw("/short", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    async with client.get(url) as answer:
        assert "Content-Type" not in answer.headers
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_hits_are_arrival_times_by_path(site: Site, client: aiohttp.ClientSession) -> None:
    """Each request is timed when it comes in, before any delay, on the clock of `time.monotonic`."""
    url = site.add("/slow?q=1", "done", delay=0.1)
    before = time.monotonic()
    for _ in range(2):
        async with client.get(url, headers={"X-Test": "yes"}) as answer:
            assert await answer.text() == "done"
    first, second = site.hits["/slow?q=1"]
    assert before <= first < second <= time.monotonic() - 0.1
    assert second - first >= 0.1
    assert [each.headers["X-Test"] for each in site.requests] == ["yes", "yes"]
    assert site.hits["/other"] == []
    assert "/other" not in site.hits
