"""The built-in site does what its table says, before any crawler looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from parsel import Selector

from crawlproj.demo import EXPECTED, DemoSite
from crawlproj.items import FetchStatus, ScheduleStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def site() -> AsyncIterator[DemoSite]:
    async with DemoSite(slow_seconds=0.01) as site:
        yield site


@pytest.fixture
async def client(site: DemoSite) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(site.url, cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield client


async def test_every_path_answers_with_the_status_of_the_table(client: aiohttp.ClientSession) -> None:
    """EXPECTED and the server agree on each path; the welcome page's cookie is tested apart."""
    found = {}
    for path in EXPECTED:
        async with client.get(path, allow_redirects=False) as answer:
            found[path] = answer.status
    redirected = {path: 301 for path, expected in EXPECTED.items() if expected.reason == "redirected"}
    wanted = {path: expected.http_status or 200 for path, expected in EXPECTED.items()}
    assert found == wanted | redirected | {"/welcome": 302}


async def test_validators_are_honoured_where_the_table_says_not_modified(
    client: aiohttp.ClientSession,
) -> None:
    """A page that is `not_modified` the second time answers 304 to either validator it gave."""
    for path, expected in EXPECTED.items():
        async with client.get(path, allow_redirects=False) as answer:
            tag, date = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        if path == "/members/":
            continue
        # An empty page gives validators, too: a crawler that used them would never see it filled.
        gives = expected.second is FetchStatus.NOT_MODIFIED or expected.fetch_status is FetchStatus.EMPTY
        assert bool(tag or date) == gives, path
        for name, value in (("If-None-Match", tag), ("If-Modified-Since", date)):
            if value is not None:
                async with client.get(path, headers={name: value}) as answer:
                    assert (answer.status, await answer.read()) == (304, b""), path


async def test_an_old_date_or_another_tag_gets_the_page(client: aiohttp.ClientSession) -> None:
    """Validators that do not match are answered with the content; the tag decides over the date."""
    date = {"If-Modified-Since": "Tue, 03 Mar 2026 17:30:00 GMT"}
    for headers in (
        {"If-Modified-Since": "Tue, 03 Mar 2026 17:29:59 GMT"},
        {"If-None-Match": '"other"'},
        {"If-None-Match": '"other"', **date},
    ):
        async with client.get("/about", headers=headers) as answer:
            assert answer.status == 200
    async with client.get("/about", headers=date) as answer:
        assert answer.status == 304


async def test_the_welcome_page_lets_in_who_brings_the_cookie(client: aiohttp.ClientSession) -> None:
    """The first visit is sent to the same address with a cookie, the second is let in."""
    async with client.get("/welcome", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "/welcome")
        token = answer.cookies["token"].value
    async with client.get("/welcome", headers={"Cookie": f"token={token}"}) as answer:
        assert answer.status == 200


async def test_every_link_of_a_page_is_in_the_table(client: aiohttp.ClientSession, site: DemoSite) -> None:
    """No page links to a path of the site that EXPECTED does not know."""
    known = {*EXPECTED, "/shop/?size=large&colour=blue"}
    linked = set()
    for path, expected in EXPECTED.items():
        if expected.fetch_status is not FetchStatus.DONE or not expected.text:
            continue
        async with client.get(path, allow_redirects=False) as answer:
            base, text = answer.url, (await answer.read()).decode("latin-1")
        for href in Selector(text, type="html").css("a::attr(href)").getall():
            url = base.join(type(base)(href))
            if str(url).startswith(site.url):
                linked.add(url.path_qs)
    unfollowed = {"/forum/cheap-anchors"}  # behind a page that asks not to follow its links
    assert linked == known - {"/2006/history", "/old/history"} | unfollowed


async def test_encodings_are_as_said(client: aiohttp.ClientSession) -> None:
    """/fr is ISO-8859-1 by its header; /ja is Shift_JIS and only its meta tag says so."""
    async with client.get("/fr") as answer:
        assert answer.charset == "iso-8859-1"
        assert "La terrasse, elle, attendra" in (await answer.read()).decode("iso-8859-1")
    async with client.get("/ja") as answer:
        assert answer.charset is None
        body = await answer.read()
    assert b'<meta charset="shift_jis">' in body
    assert "桟橋" in body.decode("shift_jis")


async def test_requests_are_counted(client: aiohttp.ClientSession, site: DemoSite) -> None:
    """Each request counts once, under its path and query, whatever the answer."""
    for path in ("/archive/?page=1", "/archive/?page=1", "/news/lost-dog"):
        async with client.get(path):
            pass
    assert site.hits == {"/archive/?page=1": 2, "/news/lost-dog": 1}


def test_the_table_covers_every_outcome() -> None:
    """Every fetch_status of a first run, and each way a URL can end, is shown somewhere."""
    assert {each.fetch_status for each in EXPECTED.values()} == {
        FetchStatus.DONE, FetchStatus.EMPTY, FetchStatus.FAILED, None,
    }  # fmt: skip
    assert {each.schedule_status for each in EXPECTED.values()} == {
        ScheduleStatus.SUCCEEDED, ScheduleStatus.FAILED, ScheduleStatus.DISREGARDED,
    }  # fmt: skip
