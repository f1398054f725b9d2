from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import string
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import psycopg
import pytest
import zstandard
from scrapy import Field, Item

from crawlproj.exceptions import BodyStoreFailed, CrawlError
from crawlproj.items import FetchStatus, PageText, ScheduleStatus
from crawlproj.pages import store as store_module
from crawlproj.pages.bodies import DatabaseBodies, body_store, read_body
from crawlproj.pages.rows import page_content
from crawlproj.pages.store import PageStore
from tests.pages.pages import (
    START,
    Link,
    Run,
    disregarded,
    done,
    empty,
    failed,
    key_of,
    not_modified,
    retry,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from psycopg import Connection

    from crawlproj.connections import Database

    Stores = Callable[..., PageStore]


@pytest.fixture
async def stores(databases: Callable[[], Database]) -> AsyncIterator[Stores]:
    """Yield a function that starts one more store, as one more worker has it."""
    async with AsyncExitStack() as stack:

        def another(run: Run = Run(), worker: str = "w1", bodies: Any = None, **more: Any) -> PageStore:  # noqa: B008
            store = PageStore(databases(), bodies or DatabaseBodies(), crawl=run, worker=worker, **more)
            store.start()
            stack.push_async_callback(store.close)
            return store

        yield another


@pytest.fixture
async def store(stores: Stores) -> PageStore:
    return stores()


def rows(sql: Connection, query: str, *values: object) -> list[Any]:
    found = sql.execute(query, values).fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


def text_of(sql: Connection, column: str = "content_id") -> str:
    (packed,) = rows(sql, f"SELECT o.text FROM page JOIN page_object AS o ON o.object_id = page.{column}")
    return zstandard.decompress(packed).decode()


def on_page(sql: Connection, body: str, *, when: str = "AFTER INSERT OR UPDATE", each: str = "ROW") -> None:
    """Let every write to the table of pages run *body*, as PL/pgSQL."""
    kind = "CONSTRAINT TRIGGER" if "DEFERRED" in each else "TRIGGER"
    sql.execute(
        f"CREATE SEQUENCE counter; CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$"
        f" BEGIN {body} RETURN NULL; END $$;"
        f" CREATE {kind} watch {when} ON page {each.replace('ROW', 'FOR EACH ROW')} EXECUTE FUNCTION watch()"
    )


async def until(condition: Callable[[], object]) -> None:
    """Wait for the truth of *condition*."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # there is nobody to set an event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def locked_pages(database_url: str) -> AsyncIterator[None]:
    """Hold up every commit of a page."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("LOCK TABLE page IN EXCLUSIVE MODE")
        yield


# --- what is stored -----------------------------------------------------------------------------


async def test_done_page(store, sql):
    """A page with content is a page row, an object, a body and a line in the log, each with its facts."""
    page = await store.put(done(outlinks=(Link("https://a.example/b"),), source_tag="t"))
    assert rows(sql, "SELECT encode(object_id, 'hex') FROM page_object") == [page.object_id]
    assert rows(
        sql,
        "SELECT url, host, depth, source_tag, fetch_status, schedule_status, http_status, attempts,"
        " fetched_at, object_id = content_id, etag, health_signal, crawl_id, first_crawl_id FROM page",
    ) == [
        (
            *("https://a.example/", "a.example", 1, "t", "done", "succeeded", 200, 1, START, True, '"1"'),
            *(page.health_signal.as_dict(), 1, 1),
        )
    ]
    assert rows(
        sql,
        "SELECT title, language, encoding, text_length, raw_text_length, content_type, headers, body_size"
        " FROM page_object",
    ) == [
        (
            *("T", "en", "utf-8", 10, 11, "text/html"),
            *([["Content-Type", "text/html"], ["ETag", '"1"']], len(page.body)),
        )
    ]
    assert rows(sql, "SELECT attempt, worker, fetch_status, bytes, duration_ms FROM fetch_default") == [
        (1, "w1", "done", len(page.body), 12)
    ]
    assert text_of(sql) == "some words"
    (packed,) = rows(sql, "SELECT data FROM body")
    assert zstandard.decompress(packed) == page.body


async def test_same_content_again_is_the_same_object(store, sql):
    """An object is a content of a URL: fetched again it is the same row, with the time of the last fetch."""
    first = await store.put(done())
    second = await store.put(done(after=60))
    assert first.object_id == second.object_id
    assert rows(sql, "SELECT fetched_at FROM page_object") == [START + timedelta(seconds=60)]
    assert rows(sql, "SELECT count(*) FROM body") == [1]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [2]
    assert text_of(sql) == "some words"


async def test_same_body_of_two_pages_is_kept_once(store, sql):
    """Bodies are kept once per distinct content, also within one batch."""
    pages = [done(f"https://a.example/{n}") for n in range(5)]
    stored = await asyncio.gather(*map(store.put, pages))
    assert len({page.object_id for page in stored}) == 5
    assert rows(sql, "SELECT count(*) FROM body") == [1]


async def test_earlier_content_survives_bad_days(stores, sql):
    """After a timeout, an error page and an empty answer the text of run 1 stays, with its own time."""
    words = " ".join(["word"] * 500)
    first = await stores().put(done(words=words))
    bad = [
        failed(after=100),
        failed(after=200, reason="http_500", http_status=500, body=b"<html><h1>Oops"),
        empty(after=300),
    ]
    for run, page in enumerate(bad, 2):
        stored = await stores(Run(id=run)).put(page)
        assert rows(sql, "SELECT fetch_status, crawl_id, fetched_at FROM page") == [
            (page.fetch_status, run, page.fetched_at)
        ]
        assert rows(sql, "SELECT encode(object_id, 'hex') FROM page") == [stored.object_id]
        assert rows(sql, "SELECT encode(content_id, 'hex'), content_status, etag FROM page") == [
            (first.object_id, "done", '"1"')
        ]
        assert text_of(sql) == words
        assert rows(sql, "SELECT o.fetched_at FROM page JOIN page_object o ON o.object_id = content_id") == [
            START
        ]
    assert rows(sql, 'SELECT fetch_status FROM "fetch" ORDER BY at') == ["done", "failed", "failed", "empty"]


async def test_newer_content_takes_over(store, sql):
    """A `done` replaces a `done`, and whatever was `empty` before; an `empty` replaces an `empty`."""
    await store.put(empty())
    second = await store.put(empty(after=1, body=b" ", headers=()))
    assert rows(sql, "SELECT encode(content_id, 'hex'), etag FROM page") == [(second.object_id, None)]
    await store.put(done(after=2))
    last = await store.put(done(after=3, words="other words", headers=(("Last-Modified", "today"),)))
    assert rows(sql, "SELECT encode(content_id, 'hex'), content_status, etag, last_modified FROM page") == [
        (last.object_id, "done", None, "today")
    ]
    assert rows(sql, "SELECT count(*) FROM page_object") == [4]


async def test_not_modified_keeps_content_and_validators(stores, sql):
    """A 304 changes the state and its time; content and validators stand, and it has no object."""
    first = await stores().put(done())
    again = await stores(Run(id=2)).put(not_modified(after=60))
    assert again.object_id is None
    assert rows(
        sql,
        "SELECT fetch_status, health_signal, object_id, encode(content_id, 'hex'), etag, fetched_at,"
        " crawl_id, first_crawl_id FROM page",
    ) == [("not_modified", None, None, first.object_id, '"1"', START + timedelta(seconds=60), 2, 1)]


@pytest.mark.parametrize(
    ("value", "stored"),
    [('W/"a b"', 'W/"a b"'), ('"\xe9"', '"\xe9"'), ('"a\x00b"', None), ('"\ud800"', None)],
)
async def test_validators_come_back_byte_for_byte(store, sql, value, stored):
    """A validator is kept exactly or not at all: a changed one would never match."""
    await store.put(done(headers=(("etag", value), ("LAST-MODIFIED", value))))
    assert rows(sql, "SELECT etag, last_modified FROM page") == [(stored, stored)]


def links_of(sql: Connection) -> list[str]:
    (packed,) = rows(sql, "SELECT outlinks FROM page")
    return [] if packed is None else zstandard.decompress(packed).decode().split("\n")


async def test_links_of_a_page_without_an_object_are_kept_with_its_row(store, sql):
    """What an errback or the callback of an error page found can refill a lost frontier, too."""
    entry = Link("https://a.example/b", data='h2/b\n{"c":"parse_b"}')
    await store.put(failed(outlinks=(entry,), known_links=("https://a.example/c",)))
    assert links_of(sql) == ['https://a.example/b\t{"c":"parse_b"}', "https://a.example/c"]


async def test_links_of_an_earlier_fetch_stay_within_the_run(stores, sql):
    """A page that comes again without links does not lose what was found before; the next run begins anew."""
    await stores().put(failed(outlinks=(Link("https://a.example/b"),)))
    await stores().put(done(after=1))
    assert links_of(sql) == ["https://a.example/b"]
    await stores(Run(id=2)).put(done(after=2))
    assert links_of(sql) == []


async def test_links_are_kept_once(store, sql):
    """Those of a stored answer are in its object, those after a 304 in the content that stands."""
    await store.put(done(outlinks=(Link("https://a.example/b"),)))
    assert links_of(sql) == []
    await store.put(not_modified(after=1, outlinks=(Link("https://a.example/b"),)))
    assert links_of(sql) == []


async def test_without_a_recovery_log_no_links_are_kept(stores, sql):
    """FRONTIER_RECOVERY_LOG off: neither with the object nor with the row; a revisit needs the request."""
    store = stores(keeps_links=False)
    await store.put(done(outlinks=(Link("https://a.example/b"),)))
    await store.put(retry("https://a.example/2", outlinks=(Link("https://a.example/b"),), extra={"c": "x"}))
    assert rows(sql, "SELECT outlinks FROM page_object") == [None]
    assert rows(sql, "SELECT outlinks, request FROM page ORDER BY url") == [(None, None), (None, '{"c":"x"}')]


async def test_what_the_url_does_not_say_of_a_request_is_kept(store, sql):
    """Another attempt, the next run and the mark in the seen filter need it; of a plain link nothing is."""
    extra = {"c": "parse_b", "m": {"page": 2}, "b": {"$b": "AA=="}, "M": "POST"}
    for n, page in enumerate((retry, done, disregarded)):
        await store.put(page(after=n, extra=extra))
        (kept,) = rows(sql, "SELECT request FROM page")
        assert json.loads(kept) == extra
    await store.put(done(after=4))
    assert rows(sql, "SELECT request FROM page") == [None]


async def test_retry_is_logged_and_not_final(store, sql):
    """A failure that is tried again is a line in the log and a state, not yet a fetch status."""
    page = await store.put(retry())
    assert page.object_id is None
    await store.put(retry(after=1, attempts=1))
    assert rows(sql, "SELECT fetch_status, schedule_status, attempts, reason FROM page") == [
        (None, "retry", 2, "timeout")
    ]
    assert rows(sql, 'SELECT attempt, fetch_status, schedule_status FROM "fetch" ORDER BY at') == [
        (1, "failed", "retry"),
        (2, "failed", "retry"),
    ]


async def test_disregarded_page_was_not_fetched(store, sql):
    """A URL that robots.txt forbids has a reason, no fetch status, no fetch time and no attempt."""
    await store.put(disregarded())
    assert rows(
        sql, "SELECT fetch_status, schedule_status, reason, fetched_at, attempts, http_status FROM page"
    ) == [(None, "disregarded", "robots", None, 0, None)]
    assert rows(sql, 'SELECT schedule_status, bytes FROM "fetch"') == [("disregarded", None)]


async def test_late_report_changes_nothing(stores, sql):
    """What a worker that was taken for dead still reports is logged; the newer state stands."""
    first, second = stores(Run(id=1)), stores(Run(id=2))
    newer = await second.put(done(after=10))
    await second.put(failed(after=5))
    await first.put(failed(after=20))
    assert rows(sql, "SELECT fetch_status, encode(object_id, 'hex'), crawl_id FROM page") == [
        ("done", newer.object_id, 2)
    ]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [3]


async def test_crawls_do_not_share_pages(stores, sql):
    """Two crawls of one URL have a page and an object each, and one body."""
    pages = [await stores(Run(id=n, name=name)).put(done()) for n, name in enumerate(("a", "b"), 1)]
    assert pages[0].object_id != pages[1].object_id
    assert rows(sql, "SELECT count(*) FROM page") == [2]
    assert rows(sql, "SELECT count(*) FROM body") == [1]


async def test_text_length_is_that_of_the_health_signal(store, sql):
    """White space between words is no text: the length is what the page says, not what is kept."""
    await store.put(done(text=PageText(main="a  \n b", main_length=3, visible_length=3)))
    assert rows(sql, "SELECT text_length FROM page_object") == [3]


async def test_binary_body_has_no_text(store, sql):
    """Null is not zero: what has no text has no length of it."""
    await store.put(done(body=bytes(range(256)), text=None, health_signal=None))
    assert rows(
        sql, "SELECT text, text_length, raw_text_length, body_size, health_signal FROM page_object"
    ) == [(None, None, None, 256, None)]


# --- items --------------------------------------------------------------------------------------


@dataclass
class Product:
    name: str
    seen: datetime


@attrs.define
class Price:
    amount: Decimal
    day: date


class Thing(Item):
    name = Field()
    inner = Field()


async def test_items_of_every_kind(store, sql):
    """Whatever Scrapy takes as an item is kept as JSON, with what JSON does not know as text."""
    items = (
        {"url": "u", "tags": {"b", "a"}, "raw": b"\xff", "nested": Product("n", START)},
        Product("p", START),
        Price(Decimal("1.10"), date(2024, 5, 1)),
        Thing(name="t", inner=Price(Decimal(2), date(2024, 5, 2))),
    )
    await store.put(done(items=items))
    assert rows(sql, "SELECT data FROM item ORDER BY n") == [
        {
            "url": "u",
            "tags": ["a", "b"],
            "raw": "\ufffd",
            "nested": {"name": "n", "seen": START.isoformat()},
        },
        {"name": "p", "seen": START.isoformat()},
        {"amount": "1.10", "day": "2024-05-01"},
        {"name": "t", "inner": {"amount": "2", "day": "2024-05-02"}},
    ]


async def test_items_are_replaced_when_the_page_comes_again(store, sql):
    """A page fetched again never doubles its items; what it no longer has is gone."""
    await store.put(done(items=({"n": 1}, {"n": 2}, {"n": 3})))
    await store.put(done(after=1, items=({"n": 4}, {"n": 5})))
    assert rows(sql, "SELECT data FROM item ORDER BY n") == [{"n": 4}, {"n": 5}]
    await store.put(done(after=2))
    assert rows(sql, "SELECT count(*) FROM item") == [0]


async def test_failure_leaves_items_alone(store, sql):
    """A later failure within the run does not take away what was found."""
    await store.put(done(items=({"n": 1},)))
    await store.put(retry(after=1))
    await store.put(failed(after=2))
    assert rows(sql, "SELECT data FROM item") == [{"n": 1}]


async def test_items_of_runs_are_apart(stores, sql):
    """Items belong to a run; the next run has its own."""
    await stores(Run(id=1)).put(done(items=({"n": 1},)))
    await stores(Run(id=2)).put(done(after=1, items=({"n": 2},)))
    assert rows(sql, "SELECT crawl_id, data FROM item ORDER BY crawl_id") == [(1, {"n": 1}), (2, {"n": 2})]


async def test_items_are_committed_with_their_page(store, sql, database_url):
    """Nobody ever sees a page without its items, or items without their page."""
    sql.execute("ALTER TABLE item ADD CHECK (data->>'n' <> '13')")
    page = await store.put(done(items=({"n": 1}, {"n": 13})))
    assert page.reason == "store_error"
    assert rows(sql, "SELECT count(*) FROM item") == [0]
    assert rows(sql, "SELECT count(*) FROM page_object") == [0]


async def test_item_of_a_hostile_class_costs_nothing_else(store, sql):
    """What an item's own code raises costs that value, not the page."""

    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no")

    loop: dict[str, Any] = {}
    loop["again"] = loop
    page = await store.put(done(items=({"x": Hostile(), "ok": 1}, loop)))
    assert page.fetch_status is FetchStatus.DONE
    assert rows(sql, "SELECT data FROM item WHERE n = 0") == [{"x": "<Hostile>", "ok": 1}]


# --- dirty data ---------------------------------------------------------------------------------


async def test_nul_and_nan_cost_nothing(store, sql):
    """What PostgreSQL refuses in text and JSON is replaced; the other rows of the batch are whole."""
    dirty = done(
        "https://a.example/dirty",
        words="a\0b",
        body=b"<title>x\0y</title>",
        headers=(("X-Odd", "1\0\ud8002"),),
        text=PageText(main="a\0b\ud800", visible_length=4, title="x\0y"),
        items=({"ratio": float("nan"), "rate": float("inf"), "name\0": "n\0", "more": [{"x": "\udc00"}]},),
        detail="d\0",
    )
    clean = [done(f"https://a.example/{n}", f"words {n}") for n in range(9)]
    stored = await asyncio.gather(*map(store.put, [dirty, *clean]))
    assert {page.fetch_status for page in stored} == {FetchStatus.DONE}
    assert rows(sql, "SELECT title, headers FROM page_object WHERE title <> 'T'") == [
        ("x\ufffdy", [["X-Odd", "1\ufffd\ufffd2"]])
    ]
    assert rows(sql, "SELECT detail FROM page WHERE detail IS NOT NULL") == ["d\ufffd"]
    assert rows(sql, "SELECT data FROM item") == [
        {"ratio": None, "rate": None, "name\ufffd": "n\ufffd", "more": [{"x": "\ufffd"}]}
    ]
    (packed,) = rows(sql, "SELECT text FROM page_object WHERE title <> 'T'")
    assert zstandard.decompress(packed).decode() == "a\ufffdb\ufffd"
    assert rows(sql, "SELECT count(*) FROM page_object") == [10]


async def test_long_url_is_stored(store, sql):
    """A URL longer than an index entry can be is stored, because its key is a hash."""
    letters = random.Random(1).choices(string.ascii_letters, k=9000)
    url = "https://a.example/?q=" + "".join(letters)
    await store.put(done(url))
    assert rows(sql, "SELECT url FROM page WHERE url_key = %s", key_of(url)) == [url]


async def test_one_bad_page_of_ten(store, sql, caplog):
    """Nine rows are stored as they are; the tenth is reported once and stored as failed."""
    sql.execute("ALTER TABLE page_object ADD CHECK (title <> 'bad')")
    bad = done("https://a.example/0", text=PageText(main="x", visible_length=1, title="bad"))
    good = [done(f"https://a.example/{n}", items=({"n": n},)) for n in range(1, 10)]
    stored = await asyncio.gather(*map(store.put, [bad, *good]))
    assert [page.fetch_status for page in stored] == [FetchStatus.FAILED] + [FetchStatus.DONE] * 9
    told = stored[0]
    assert (told.schedule_status, told.reason, told.stores, told.health_signal, told.object_id) == (
        ScheduleStatus.FAILED,
        "store_error",
        False,
        None,
        None,
    )
    assert rows(sql, "SELECT url, fetch_status, schedule_status FROM page WHERE reason = 'store_error'") == [
        ("https://a.example/0", "failed", "failed")
    ]
    assert rows(sql, "SELECT count(*) FROM page_object") == [9]
    assert rows(sql, "SELECT count(*) FROM item") == [9]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [10]
    assert [r.getMessage()[:19] for r in caplog.records if r.levelno >= logging.ERROR] == [
        "https://a.example/0"
    ]
    assert (await store.put(done("https://a.example/later"))).fetch_status is FetchStatus.DONE


@pytest.mark.parametrize(
    "impossible",
    [
        {"depth": 2**40},
        {"duration_ms": 1.5},
        {"http_status": "200"},
        {"content_type": b"x"},
        {"schedule_status": None},
    ],
    ids=str,
)
async def test_impossible_values_cost_their_page_only(store, sql, impossible):
    """A value that no column holds makes its page a failure; `put` raises nothing."""
    stored = await asyncio.gather(
        store.put(done("https://a.example/bad", **impossible)), store.put(done("https://a.example/good"))
    )
    assert [page.reason for page in stored] == ["store_error", None]
    assert rows(sql, "SELECT url FROM page WHERE fetch_status = 'done'") == ["https://a.example/good"]


async def test_earlier_content_survives_a_store_error(store, sql):
    """A page that cannot be stored this time keeps what was stored before."""
    first = await store.put(done())
    sql.execute("ALTER TABLE page_object ADD CHECK (title <> 'bad')")
    await store.put(done(after=1, text=PageText(main="x", visible_length=1, title="bad")))
    assert rows(sql, "SELECT fetch_status, reason, encode(content_id, 'hex') FROM page") == [
        ("failed", "store_error", first.object_id)
    ]


async def test_page_that_cannot_even_fail(store, sql, caplog):
    """Where not even a failure can be stored, the log says so and the crawl goes on."""
    sql.execute("ALTER TABLE page ADD CHECK (host <> 'bad.example')")
    bad = done("https://bad.example/")
    bad = replace(bad, lease=replace(bad.lease, host="bad.example"))
    assert (await store.put(bad)).reason == "store_error"
    assert "Not even the failure" in caplog.text
    assert (await store.put(replace(done(), key="no bytes"))).reason == "store_error"
    assert (await store.put(done())).fetch_status is FetchStatus.DONE


# --- batches ------------------------------------------------------------------------------------


async def test_batches_grow_while_a_commit_runs(store, sql):
    """What comes up during a commit goes into the next one together; nothing waits for a timer."""
    on_page(sql, "PERFORM nextval('counter'), pg_sleep(0.05);", each="FOR EACH STATEMENT")
    first = asyncio.create_task(store.put(done("https://a.example/first")))
    await asyncio.sleep(0)
    await asyncio.gather(*[store.put(done(f"https://a.example/{n}")) for n in range(100)], first)
    assert rows(sql, "SELECT last_value FROM counter")[0] <= 4
    assert rows(sql, "SELECT count(*) FROM page") == [101]


async def test_batches_are_bounded_in_bytes(store, sql, monkeypatch):
    """A few huge pages do not become one huge statement."""
    monkeypatch.setattr(store_module, "MAX_BYTES", 100_000)
    on_page(sql, "PERFORM nextval('counter');", each="FOR EACH STATEMENT")
    pages = [done(f"https://a.example/{n}", body=os.urandom(60_000)) for n in range(10)]
    await asyncio.gather(*map(store.put, pages))
    assert rows(sql, "SELECT last_value FROM counter")[0] >= 5


async def test_one_url_twice_in_a_batch_keeps_its_order(store, sql):
    """Two reports of one URL that come together end as if they had come apart."""
    on_page(sql, "PERFORM nextval('counter');", each="FOR EACH STATEMENT")
    first, *_ = await asyncio.gather(
        store.put(done()), store.put(failed(after=1)), store.put(done("https://a.example/other"))
    )
    assert rows(
        sql, "SELECT fetch_status, encode(content_id, 'hex') FROM page WHERE fetch_status = 'failed'"
    ) == [("failed", first.object_id)]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [3]


async def test_two_workers_with_the_same_pages_do_not_deadlock(stores, sql):
    """Overlapping batches in opposite orders, 200 times: no deadlock, no lost row."""
    first, second = stores(worker="w1"), stores(worker="w2")
    urls = ["https://a.example/1", "https://a.example/2"]
    for n in range(200):
        pages = [done(url, f"words {n}", after=n, items=({"n": n}, {"m": n})) for url in urls]
        await asyncio.gather(
            *[first.put(page) for page in pages], *[second.put(page) for page in reversed(pages)]
        )
    assert rows(sql, "SELECT count(*) FROM page_object") == [400]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [800]
    sql.execute("SELECT pg_stat_force_next_flush()") if sql.info.server_version >= 150000 else None
    assert rows(sql, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [0]


async def test_pages_of_many_are_stored_in_any_order(stores, sql):
    """Two workers with shuffled batches of the same fifty URLs and bodies do not deadlock either."""
    pair = stores(worker="w1"), stores(worker="w2")
    shuffle = random.Random(7).shuffle
    for n in range(10):
        pages = [done(f"https://a.example/{m}", f"words {n} {m % 7}", after=n) for m in range(50)]
        work = []
        for store in pair:
            shuffle(pages)
            work += [store.put(page) for page in pages]
        await asyncio.gather(*work)
    assert rows(sql, "SELECT count(*) FROM page") == [50]
    assert rows(sql, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [0]


# --- when it is told, and the end ---------------------------------------------------------------


async def test_told_only_after_the_commit(store, sql, database_url):
    """A page is acknowledged when it is committed and not before."""
    await store.put(done("https://a.example/warm"))
    async with locked_pages(database_url):
        waiting = asyncio.create_task(store.put(done()))
        done_, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done_
        assert rows(sql, "SELECT count(*) FROM page_object") == [1]
    await waiting
    assert rows(sql, "SELECT count(*) FROM page_object") == [2]


async def test_commit_that_fails_is_repeated(store, sql):
    """Sixteen pages at once and a commit that fails: all are stored, each told once, none doubled."""
    on_page(
        sql,
        "IF NEW.url LIKE '%%/5' AND nextval('counter') < 3 THEN"
        " RAISE 'not now' USING ERRCODE = 'serialization_failure'; END IF;".replace("%%", "%"),
        each="DEFERRABLE INITIALLY DEFERRED ROW",
    )
    pages = [done(f"https://a.example/{n}") for n in range(16)]
    stored = await asyncio.gather(*map(store.put, pages))
    assert {page.fetch_status for page in stored} == {FetchStatus.DONE}
    assert rows(sql, "SELECT last_value FROM counter") == [3]
    assert rows(sql, "SELECT count(*) FROM page") == [16]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [16]


async def test_repeated_commit_is_logged_once(store, sql):
    """A commit whose answer got lost is repeated as it was; the log does not count it twice."""
    page = done(items=({"n": 1},))
    assert await store.put(page) == await store.put(page)
    for table in ("page", "page_object", "body", '"fetch"', "item"):
        assert rows(sql, f"SELECT count(*) FROM {table}") == [1], table


async def test_constraint_that_fails_at_commit(store, sql):
    """What only the commit finds out about one page costs that page only."""
    on_page(
        sql,
        "IF NEW.url LIKE '%/5' AND NEW.fetch_status = 'done' THEN"
        " RAISE 'never' USING ERRCODE = 'check_violation'; END IF;",
        each="DEFERRABLE INITIALLY DEFERRED ROW",
    )
    stored = await asyncio.gather(*[store.put(done(f"https://a.example/{n}")) for n in range(10)])
    assert [page.url for page in stored if page.reason == "store_error"] == ["https://a.example/5"]
    assert rows(sql, "SELECT count(*) FROM page WHERE fetch_status = 'done'") == [9]


async def test_last_rows_are_not_lost(stores, sql):
    """53 pages, a slow database, a normal end: 53 rows, though nobody waited for them."""
    on_page(sql, "PERFORM pg_sleep(0.3);", each="FOR EACH STATEMENT")
    store = stores()
    puts = [asyncio.create_task(store.put(done(f"https://a.example/{n}"))) for n in range(53)]
    await asyncio.sleep(0)
    await store.close()
    assert rows(sql, "SELECT count(*) FROM page") == [53]
    assert all(put.done() for put in puts)


async def test_huge_page_is_not_lost_by_closing(stores, sql):
    """A page that is still being compressed when the store closes is stored too."""
    store = stores()
    body = os.urandom(3_000_000)
    put = asyncio.create_task(store.put(done(body=body)))
    await asyncio.sleep(0)
    await store.close()
    page = await put
    assert rows(sql, "SELECT encode(object_id, 'hex'), body_size FROM page_object") == [
        (page.object_id, 3_000_000)
    ]


async def test_waiter_that_gives_up_costs_nothing(store, sql, database_url):
    """A page whose waiter was cancelled is stored all the same, and the store goes on."""
    await store.put(done("https://a.example/warm"))
    async with locked_pages(database_url):
        put = asyncio.create_task(store.put(done()))
        await asyncio.sleep(0.1)
        put.cancel()
        await asyncio.wait([put])
    await store.put(done("https://a.example/next"))
    assert rows(sql, "SELECT count(*) FROM page") == [3]


async def test_sessions_ended_by_the_server(store, sql):
    """Backends ended from outside, again and again: every page is stored, none is logged twice."""
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%test'"
    pages = [done(f"https://a.example/{n}", after=n) for n in range(60)]
    for n in range(0, 60, 10):
        puts = [asyncio.create_task(store.put(page)) for page in pages[n : n + 10]]
        if n % 20:
            await asyncio.sleep(0)
        sql.execute(kill)
        assert all([(await put).object_id for put in puts])
    assert rows(sql, "SELECT count(*) FROM page") == [60]
    assert rows(sql, 'SELECT count(*) FROM "fetch"') == [60]


async def test_unexpected_end_is_told_to_everybody(stores, sql, caplog):
    """When the store cannot go on, everybody who waits learns it at once, and so do those who come."""
    store = stores()
    await store.put(done("https://a.example/warm"))
    sql.execute("DROP TABLE item")
    puts = [store.put(done(f"https://a.example/{n}")) for n in range(100)]
    results = await asyncio.wait_for(asyncio.gather(*puts, return_exceptions=True), 10)
    assert {type(result) for result in results} == {CrawlError}
    assert 'relation "item" does not exist' in str(results[0])
    with pytest.raises(CrawlError, match="can no longer be stored"):
        await store.put(done())
    await asyncio.wait_for(store.close(), 10)
    assert len([r for r in caplog.records if r.levelno == logging.CRITICAL]) == 1


async def test_cancelled_store_is_told_to_everybody(stores, database_url):
    """A store that somebody cancels does not leave anybody waiting."""
    store = stores()
    await store.put(done("https://a.example/warm"))
    async with locked_pages(database_url):
        put = asyncio.create_task(store.put(done()))
        await asyncio.sleep(0.1)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "page store"]
        task.cancel()
        with pytest.raises(CrawlError, match="cancelled"):
            await asyncio.wait_for(put, 10)


class Elsewhere:
    """A place for bodies: it takes them, or raises what is next in *faults*."""

    address = "memory://elsewhere"

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.kept: list[bytes] = []

    def check(self) -> None: ...

    async def keep(self, bodies: Any) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.kept.extend(body.hash for body in bodies)


AWAY = BodyStoreFailed("memory://elsewhere", "bucket is gone")


async def test_bodies_kept_elsewhere(stores, sql):
    """A body goes to its place once, before its page is stored, and its row says where it is."""
    bodies = Elsewhere()
    store = stores(bodies=bodies)
    await asyncio.gather(*[store.put(done(f"https://a.example/{n}")) for n in range(3)], store.put(failed()))
    await store.put(done("https://a.example/later"))
    assert len(bodies.kept) == 1
    assert rows(sql, "SELECT DISTINCT body_hash FROM page_object") == bodies.kept
    (row,) = rows(sql, "SELECT body_hash, size, data, store FROM body")
    assert row == (bodies.kept[0], len(done().body), None, bodies.address)


async def test_body_is_committed_nowhere_before_it_is_kept(stores, sql, caplog, monkeypatch):
    """While its place is away a page waits, with one warning; it is committed once the body is safe."""
    monkeypatch.setattr(store_module, "_FIRST_WAIT", 0.01)
    bodies = Elsewhere(AWAY, AWAY, AWAY)
    counts = []

    async def keep(batch: Any) -> None:
        counts.extend(rows(sql, "SELECT count(*) FROM page"))
        await Elsewhere.keep(bodies, batch)

    monkeypatch.setattr(bodies, "keep", keep)
    assert (await stores(bodies=bodies).put(done())).fetch_status is FetchStatus.DONE
    assert counts == [0, 0, 0, 0]
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "bucket is gone" in warning
    assert rows(sql, "SELECT count(*) FROM page") == [1]


async def test_body_that_cannot_be_kept_before_the_end(stores, sql, monkeypatch):
    """A worker that is told to end does not wait for a place that is away; its pages stay uncommitted."""
    monkeypatch.setattr(store_module, "_FIRST_WAIT", 30)
    store = stores(bodies=Elsewhere(*[AWAY] * 9))
    put = asyncio.create_task(store.put(done()))
    await asyncio.sleep(0.1)
    assert not put.done()
    await asyncio.wait_for(store.close(), 10)
    with pytest.raises(CrawlError, match=r"can no longer be stored: BODY_STORE .* bucket is gone"):
        await put
    assert rows(sql, "SELECT count(*) FROM page") == [0]


async def test_body_store_that_breaks_ends_the_store(stores, sql):
    """No page is committed whose body is not safe, whatever happens."""
    with pytest.raises(CrawlError, match="a fault of ours"):
        await stores(bodies=Elsewhere(TypeError("a fault of ours"))).put(done())
    assert rows(sql, "SELECT count(*) FROM page") == [0]


async def test_worker_that_dies_between_body_and_commit(stores, sql, tmp_path, database_url):
    """The body is there and nothing refers to it; the page fetched again does, without a second copy."""
    bodies = body_store(f"file://{tmp_path}")
    dying = stores(bodies=bodies)
    async with locked_pages(database_url):
        put = asyncio.create_task(dying.put(done()))
        await until(lambda: list(tmp_path.rglob("*.zst")))
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "page store"]
        task.cancel()
        with pytest.raises(CrawlError):
            await put
    assert rows(sql, "SELECT count(*) FROM body") == [0]
    (path,) = tmp_path.rglob("*.zst")
    written = path.stat().st_mtime_ns
    await stores(worker="w2", bodies=bodies).put(done())
    assert rows(sql, "SELECT encode(body_hash, 'hex'), store FROM body") == [(path.stem, bodies.address)]
    assert path.stat().st_mtime_ns == written


async def test_bodies_stay_where_they_were_put(stores, sql, tmp_path):
    """With the setting changed between runs, a known body is not kept twice, and every one can be read."""
    first, second = (body_store(f"file://{tmp_path}/{n}") for n in (1, 2))
    for number, bodies in enumerate((None, first, second), 1):
        store = stores(run=Run(id=number), bodies=bodies)
        for n in range(number):
            await store.put(done(f"https://a.example/{n}", words=f"words {n}", after=number))
    assert rows(sql, "SELECT store FROM body ORDER BY store NULLS FIRST") == [
        None,
        first.address,
        second.address,
    ]
    for n in range(3):
        page = done(f"https://a.example/{n}", words=f"words {n}")
        (object_id,) = rows(sql, "SELECT content_id FROM page WHERE url_key = %s", page.key)
        content = page_content(sql, object_id)
        assert (content.body or read_body(content.body_at, content.body_hash)) == page.body


async def test_two_workers_with_the_same_bodies(stores, sql, tmp_path):
    """Each body is one file and one row, however many workers come with it at the same moment."""
    bodies = [body_store(f"file://{tmp_path}") for _ in range(2)]
    workers = [stores(worker=f"w{n}", bodies=each) for n, each in enumerate(bodies)]
    pages = [done(f"https://a.example/{n}", words=f"words {n % 7}") for n in range(60)]
    await asyncio.gather(*[store.put(page) for page in pages for store in workers])
    assert rows(sql, "SELECT count(*) FROM body") == [7]
    assert len(list(tmp_path.rglob("*.*"))) == 7


async def test_full_disk_is_waited_for(store, sql, caplog, monkeypatch):
    """A server that lacks room for a while costs time, not pages, and one warning."""
    monkeypatch.setattr(store_module, "_FIRST_WAIT", 0.01)
    on_page(sql, "IF nextval('counter') < 4 THEN RAISE 'full' USING ERRCODE = 'disk_full'; END IF;")
    assert (await store.put(done())).fetch_status is FetchStatus.DONE
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


async def test_not_open(database):
    """A store takes pages between its start and its end only, and says so."""
    store = PageStore(database, DatabaseBodies(), crawl=Run(), worker="w1")
    with pytest.raises(CrawlError, match="not open"):
        await store.put(done())
    store.start()
    await store.put(done())
    await store.close()
    await store.close()
    with pytest.raises(CrawlError, match="not open"):
        await store.put(done())


# --- partitions ---------------------------------------------------------------------------------


async def test_log_goes_into_partitions(stores, sql):
    """Lines of today are in today's partition; what is in no day's is in the one for everything else."""
    now = datetime.now(UTC)
    await stores().put(done("https://a.example/1", fetched_at=now))
    await stores().put(done("https://a.example/2", fetched_at=START))
    assert rows(sql, 'SELECT tableoid::regclass::text FROM "fetch" ORDER BY at DESC') == [
        f"fetch_{now:%Y%m%d}",
        "fetch_default",
    ]


async def test_store_makes_partitions_ahead(stores, sql):
    """Partitions that are missing are made when a store starts."""
    today = f"fetch_{datetime.now(UTC):%Y%m%d}"
    sql.execute(f"DROP TABLE {today}")
    await stores().put(done(fetched_at=datetime.now(UTC)))
    assert rows(sql, 'SELECT tableoid::regclass::text FROM "fetch"') == [today]


async def test_partition_that_cannot_be_made(stores, sql, caplog):
    """A day whose lines are already among the rest gets no partition; nothing else is held up by it."""
    now = datetime.now(UTC)
    sql.execute(f"DROP TABLE fetch_{now:%Y%m%d}")
    sql.execute(
        "INSERT INTO fetch_default (at, crawl_id, url_key, worker, attempt, schedule_status)"
        " VALUES (now(), 1, 'x', 'w', 1, 'failed')"
    )
    assert (await stores().put(done(fetched_at=now))).fetch_status is FetchStatus.DONE
    assert rows(sql, "SELECT count(*) FROM fetch_default") == [2]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_partitions_without_the_right_to_make_them(stores, sql, caplog):
    """Without the right to make partitions the log goes on in the one for everything else."""
    sql.execute("DROP FUNCTION fetch_make_partitions")
    assert (await stores().put(done())).fetch_status is FetchStatus.DONE
    assert "fetch_default takes its rows" in caplog.text
