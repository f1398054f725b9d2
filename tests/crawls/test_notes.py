from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from crawlproj.crawls import lifecycle, notes
from tests.crawl.support import linking


@pytest.fixture
async def crawl_id(database) -> int:
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker="w1", lease_seconds=60, config={}
    )
    return crawl.id


async def write(database, crawl_id: int, note: notes.StopNote) -> bool:
    return await notes.write(
        database, crawl_id, namespace=note.namespace, message=note.message, fields=note.fields
    )


def test_note_on_running_time():
    """The note on a time limit, word for word."""
    note = notes.running_time_note(limit=60.0, used=69.3)
    assert note.namespace == "STOP_EARLY_REASON"
    assert note.message == "running time 70s exceeds limit 60s"
    assert note.fields == {"r": "ExceedRunningTime", "mostSeconds": "60", "usedSeconds": "70"}


@pytest.mark.parametrize(
    ("limit", "used", "message"),
    [
        (60, 60.001, "running time 61s exceeds limit 60s"),
        (60.0, 60.0, "running time 60s exceeds limit 60s"),
        (0.5, 0.512, "running time 0.6s exceeds limit 0.5s"),
        (1_000_000, 1_234_567.2, "running time 1234568s exceeds limit 1000000s"),
    ],
)
def test_used_time_is_never_below_the_limit(limit, used, message):
    """What was used is rounded up: a time that reads as within the limit would be a riddle."""
    assert notes.running_time_note(limit=limit, used=used).message == message


def test_note_on_targets():
    """The note on a limit of targets, word for word."""
    note = notes.targets_note(limit=1, started=2)
    assert note.message == "targets count 2 exceeds limit 1"
    assert note.fields == {
        "r": "ExceedTargetsCountLimit",
        "limitTargets": "1",
        "currentStartedTargets": "2",
    }


def test_note_on_results():
    """The note on a limit of results, word for word."""
    note = notes.results_note(limit=1, results=71)
    assert note.message == "results count 71 exceeds limit 1"
    assert note.fields == {"r": "ExceedResultsCountLimit", "limitResults": "1", "currentResults": "71"}


async def test_stop_reason_is_told_once(databases, crawl_id, sql):
    """Of all workers that hit a limit, the first one says so; the others learn that it was said."""
    found = [notes.targets_note(limit=1, started=n) for n in range(2, 10)]
    first = await asyncio.gather(*[write(databases(), crawl_id, note) for note in found])
    assert first.count(True) == 1
    rows = sql.execute("SELECT message, fields FROM note").fetchall()
    assert rows == [(found[first.index(True)].message, found[first.index(True)].fields)]


async def test_other_notes_are_all_kept(database, crawl_id, sql):
    """Only the stop reason is unique; notes may say the same twice."""
    for _ in range(2):
        assert await notes.write(database, crawl_id, namespace="AUDIT", message="seen", fields={"n": 1})
    assert sql.execute("SELECT count(*) FROM note").fetchone() == (2,)


async def test_note_holds_anything(database, crawl_id, sql):
    """A note about a dirty page is stored, cleaned."""
    await notes.write(database, crawl_id, namespace="X", message="a\0b", fields={"k\0": "\ud800"})
    assert sql.execute("SELECT message, fields FROM note").fetchone() == ("a\ufffdb", {"k\ufffd": "\ufffd"})


def test_note_on_bytes():
    """The note on a limit of bytes, in the manner of the others."""
    note = notes.bytes_note(limit=1000, received=1234)
    assert note.message == "bytes count 1234 exceeds limit 1000"
    assert note.fields == {"r": "ExceedBytesLimit", "limitBytes": "1000", "currentBytes": "1234"}


async def test_one_of_a_kind_is_enough(databases, crawl_id, sql):
    """Of eight workers that say once for the run what all of them see, one does."""
    said = await asyncio.gather(
        *[
            notes.write(databases(), crawl_id, namespace="FULL", message=f"{n}", fields={}, once=True)
            for n in range(8)
        ]
    )
    assert said.count(True) == 1
    assert sql.execute("SELECT message FROM note").fetchall() == [(str(said.index(True)),)]


async def test_stop_reason_is_read_back(database, crawl_id):
    """Whoever joins a run learns why it stops; of a run that does not, nothing."""
    assert await notes.stop_reason(database, crawl_id) is None
    await write(database, crawl_id, notes.results_note(limit=1, results=2))
    assert await notes.stop_reason(database, crawl_id) == "ExceedResultsCountLimit"


OWN_NOTES = """
from scrapy import Request, Spider

from crawlproj.worker import Worker


class PriceCheck:
    def __init__(self, crawler):
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    async def process_item(self, item):
        if item["price"] <= 0:
            await Worker.of(self.crawler).note(
                "PRICE_CHECK", f"a price of {item['price']}", {"url": item["url"], "price": item["price"]}
            )
        return item


class Shop(Spider):
    name = "shop"
    custom_settings = {"ITEM_PIPELINES": {f"{__name__}.PriceCheck": 300}}

    async def start(self):
        for url in self.seeds.split():
            yield Request(url)

    async def parse(self, response):
        if response.url.endswith("/odd"):
            await Worker.of(self.crawler).note("LAYOUT", "a page has no basket")
        yield {"url": response.url, "price": 0 if response.url.endswith("/free") else 5}
"""


def test_notes_of_a_real_crawl(site, crawl, spider_source):
    """A pipeline and a spider write notes of their own; a host that is ill, and well again, has its two."""
    spider_source(OWN_NOTES)
    for path in ("/free", "/odd"):
        site.add(path, linking())
    tries = []

    def recovers(request):
        tries.append(request)
        return web.Response(status=503) if len(tries) < 5 else web.Response(text="well again")

    ill = site.host(2) + "/"
    site.add("/", recovers)
    result = crawl("shop", {"MAX_ATTEMPTS": 9}, seeds=[site.url + "/free", site.url + "/odd", ill])
    assert result.returncode == 0, result.stderr
    found = {note["namespace"]: note for note in result.notes}
    assert len(result.notes) == len(found) == 4
    assert found["PRICE_CHECK"]["message"] == "a price of 0"
    assert found["PRICE_CHECK"]["fields"] == {"url": site.url + "/free", "price": 0}
    assert (found["LAYOUT"]["message"], found["LAYOUT"]["fields"]) == ("a page has no basket", {})
    host = ill.split("/")[2]
    fields = found["HOST_INCIDENT"]["fields"]
    assert (fields["host"], fields["incidents"], fields["reason"]) == (host, 3, "http_503")
    assert found["HOST_INCIDENT"]["message"].startswith(f"{host} is ")
    assert found["HOST_RECOVERED"]["fields"]["host"] == host
    assert [note["namespace"] for note in result.notes][-1] == "HOST_RECOVERED"


def test_a_host_that_asks_for_a_long_wait(site, crawl):
    """One answer that asks for ten minutes is worth a note; the run ends all the same."""
    site.add("/", linking("/1", "/2"))
    site.add("/1", linking())
    site.add("/2", "", status=429, headers={"Retry-After": "600"})
    settings = {"MAX_ATTEMPTS": 1, "FRONTIER_RETRY_DELAY_MAX_MS": 900_000}
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    (note,) = result.notes
    host = site.url.split("/")[2]
    assert note["message"] == f"{host} is left alone for 10 min after 1 \N{MULTIPLICATION SIGN} http_429"
    assert note["fields"] == {"host": host, "incidents": 1, "reason": "http_429", "wait_seconds": 600}
