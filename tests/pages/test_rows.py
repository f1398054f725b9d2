from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from crawlproj.exceptions import WrongUsage
from crawlproj.pages import rows
from crawlproj.pages.bodies import DatabaseBodies
from crawlproj.pages.store import PageStore
from tests.pages.pages import START, Link, Run, disregarded, done, empty, failed, key_of, not_modified, retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crawlproj.items import PageObject

URL = "https://a.example/"


@pytest.fixture
def stored(database, sql):
    """Return a function that stores pages for a run, and makes the run where there is none."""

    @asynccontextmanager
    async def opened(run: Run) -> AsyncIterator[PageStore]:
        store = PageStore(database, DatabaseBodies(), crawl=run, worker="w1")
        store.start()
        yield store
        await store.close()

    async def put(*pages: PageObject, run: int = 1, name: str = "news") -> list[PageObject]:
        query = (
            "INSERT INTO crawl (name, run, spider, frontier, status, retry_at)"
            " VALUES (%s, %s, 's', %s, 'sealed', NULL)"
            " ON CONFLICT (name, run) DO UPDATE SET run = crawl.run RETURNING id"
        )
        (crawl_id,) = sql.execute(query, [name, run, f"{name}{run}"]).fetchone()
        async with opened(Run(id=crawl_id, name=name)) as store:
            return [await store.put(page) for page in pages]

    return put


async def test_pages_show_their_state(stored, sql):
    """One row per page with everything that a list of pages shows; ids are hexadecimal."""
    (page,) = await stored(done(source_tag="t"))
    (row,) = rows.list_pages(sql, crawl_name="news")
    expected = {
        "url": URL,
        "canonical_url": URL,
        "depth": 1,
        "source_tag": "t",
        "fetch_status": "done",
        "schedule_status": "succeeded",
        "http_status": 200,
        "reason": None,
        "attempts": 1,
        "fetched_at": START,
        "object_id": page.object_id,
        "health_signal": page.health_signal.as_dict(),
    }
    assert expected.items() <= row.items()


async def test_pages_are_filtered(stored, sql):
    """By status of either kind, by host, by run; no more than asked for, in the order of reports."""
    await stored(
        done("https://a.example/1", after=3),
        empty("https://a.example/2", after=2),
        failed("https://a.example/3", after=1),
        retry("https://a.example/4"),
    )
    await stored(disregarded("https://a.example/5", after=9), run=2)
    await stored(done("https://a.example/6"), name="other")

    def found(**filters):
        return "".join(row["url"][-1] for row in rows.list_pages(sql, **{"crawl_name": "news", **filters}))

    assert found() == "43215"
    assert found(limit=2) == "43"
    assert found(status="empty") == "2"
    assert found(status="retry") == "4"
    assert found(status="disregarded") == "5"
    assert found(status="succeeded") == "21"
    assert found(host="b.example") == ""
    assert found(host="a.example", status="failed") == "3"
    (second,) = sql.execute("SELECT id FROM crawl WHERE name = 'news' AND run = 2").fetchone()
    assert found(crawl_id=second) == "5"
    assert found(crawl_name=None, crawl_id=None, status="done") == "61"


async def test_many_pages_are_streamed(stored, sql, monkeypatch):
    """A list longer than one chunk is whole, and can be left early."""
    monkeypatch.setattr(rows, "_CHUNK", 2)
    await stored(*[failed(f"https://a.example/{n}", after=n) for n in range(7)])
    assert len(list(rows.list_pages(sql))) == 7
    pages = rows.list_pages(sql)
    assert next(pages)["url"].endswith("/0")
    pages.close()
    assert len(list(rows.list_pages(sql, limit=3))) == 3


async def test_page_is_found_by_its_ids(stored, sql):
    """By its key, by any of its objects, by the first digits of both, and only in the crawl asked for."""
    first, second = await stored(done(words="one"), done(words="two", after=1))
    await stored(done(words="one"), name="other")
    key = key_of(URL).hex()
    assert [page["crawl_name"] for page in rows.find_pages(sql, key)] == ["news", "other"]
    assert [page["crawl_name"] for page in rows.find_pages(sql, key[:9].upper())] == ["news", "other"]
    for object_id in (first.object_id, second.object_id, first.object_id[:12]):
        (page,) = rows.find_pages(sql, object_id)
        assert (page["id"], page["run"], page["object_id"]) == (key, 1, second.object_id)
    assert [page["crawl_name"] for page in rows.find_pages(sql, key, crawl_name="other")] == ["other"]
    assert rows.find_pages(sql, "0" * 32) == []


@pytest.mark.parametrize("digits", ["", "xyz", "0" * 33, "\u0661", "-1", " a"])
def test_what_is_no_id(digits):
    """An id that cannot be one is refused in a sentence."""
    with pytest.raises(WrongUsage, match="is no id"):
        rows.id_range(digits)


@pytest.mark.parametrize(("digits", "low", "high"), [("a", b"\xa0", b"\xaf"), ("ab", b"\xab", b"\xab")])
def test_range_of_an_id(digits, low, high):
    """Also an odd number of digits means all ids that begin with them."""
    first, last = rows.id_range(digits)
    assert (first[:1], last[:1]) == (low, high)
    assert len(first) == len(last) == 16


async def test_story_of_a_page(stored, sql):
    """All attempts over all runs in order, all contents with the last one first, items of the last run."""
    await stored(retry(), done(after=1, attempts=1, items=({"n": 1},)))
    await stored(not_modified(after=100), run=2)
    await stored(done(words="new", after=200, items=({"n": 2},)), run=3)
    await stored(done(words="foreign"), name="other")
    key = key_of(URL)
    assert [
        (fetch["run"], fetch["attempt"], fetch["fetch_status"])
        for fetch in rows.page_fetches(sql, "news", key)
    ] == [(1, 1, "failed"), (1, 2, "done"), (2, 1, "not_modified"), (3, 1, "done")]
    assert [(found["run"], found["text_length"]) for found in rows.page_objects(sql, "news", key)] == [
        (3, 3),
        (1, 10),
    ]
    assert rows.page_items(sql, "news", key) == [{"n": 2}]
    assert rows.page_items(sql, "unknown", key) == []


async def test_content_of_an_object(stored, sql):
    """Text, links and body come back as they were."""
    (page,) = await stored(
        done(words="W\u00f6rter", outlinks=(Link("https://a.example/1"), Link("https://b.example/")))
    )
    content = rows.page_content(sql, bytes.fromhex(page.object_id))
    assert content is not None
    assert (content.text, content.body) == ("W\u00f6rter", page.body)
    assert content.outlinks == ("https://a.example/1", "https://b.example/")
    assert rows.page_content(sql, b"?" * 16) is None


async def test_content_of_empty_and_binary(stored, sql):
    """An empty text is not the same as none."""
    nothing, binary = await stored(empty(), done("https://a.example/b", text=None, body=b"\x89PNG"))
    found = [rows.page_content(sql, bytes.fromhex(page.object_id)) for page in (nothing, binary)]
    assert [(content.text, content.body) for content in found] == [("", b""), (None, b"\x89PNG")]


async def test_recovery_log(stored, sql):
    """What a lost frontier is refilled from: pages with their links, after a 304 those of the content."""
    links = (Link("https://a.example/1"), Link("https://a.example/2", 'h2/2\n{"M":"POST"}'))
    await stored(done(outlinks=links))
    await stored(not_modified(after=1), retry("https://a.example/1", after=2), run=2)
    (second,) = sql.execute("SELECT id FROM crawl WHERE run = 2").fetchone()
    found = list(rows.recovery_log(sql, second))
    assert [(row["schedule_status"], row["links"]) for row in found] == [
        (
            "succeeded",
            [
                rows.Link(url="https://a.example/1", extra=None),
                rows.Link(url="https://a.example/2", extra='{"M":"POST"}'),
            ],
        ),
        ("retry", []),
    ]
