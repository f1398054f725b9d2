"""What a worker says of its pace: verdicts that a real crawl makes true, and what an outage costs."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from crawlproj.commands.status import for_people, look
from crawlproj.connections import Addresses, Database, connect_database
from crawlproj.crawls import lifecycle, rows
from crawlproj.crawls.pace import merged
from crawlproj.frontier.records import Figures
from crawlproj.worker import Worker
from extensions import pace
from extensions.pace import PaceExtension
from tests.crawl.support import linking, poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

# As a minute is too long for a test, the causes are counted over two seconds.
QUICK = """
from crawlproj.crawls import pace
from extensions import pace as extension
from spiders.site import SiteSpider

pace.SHARES_SECONDS = 2.0
extension.WRITE_SECONDS = 0.5

class Quick(SiteSpider):
    name = "quick"
"""


def endless(request: web.Request) -> str:
    return linking(f"/{int(request.path[1:]) + 1}")


def test_each_verdict_made_true(
    site: Site, scrapy: Project, spider_source: Callable[[str], None], redis_url: str, database_url: str
) -> None:
    """A slow server and one place: workers; the page table locked: database; slow hosts: host pace."""
    addresses = Addresses(
        redis_url=redis_url, database_url=database_url, redis_embedded=False, database_embedded=False
    )
    spider_source(QUICK)
    for n in range(1, 400):
        site.add(f"/{n}", endless, delay=0.2)
    seeds = " ".join(f"{address}/1" for address in (site.url, site.host(2), site.host(3)))
    settings = {"CRAWL_NAME": "slow", "MIN_INTERVAL_MS": 0, "MAX_CONCURRENT_COUNT": 1}
    worker = scrapy.start("crawl", "quick", "-a", f"seeds={seeds}", settings=settings)
    with connect_database(database_url) as sql, connect_database(database_url) as other:
        assert poll(lambda: rows.list_crawls(sql))
        crawl = rows.find_crawl(sql, "slow")

        def verdict(cause: str) -> bool:
            found = merged(rows.paces(sql, crawl.id)).limit
            return found is not None and found[0] == cause and found[1] > 0.7

        def told() -> dict[str, str]:
            return dict(for_people(look(sql, addresses, crawl.id)))

        assert poll(lambda: verdict("workers")), told()
        lines = told()
        assert lines["limited by"].startswith("workers")
        assert re.search(r"P50 \d{3} ms", lines["speed"])
        with other.transaction():
            other.execute("LOCK TABLE page IN SHARE MODE")  # read, but not write
            assert poll(lambda: verdict("database")), told()
            assert told()["limited by"].startswith("database")
        scrapy("tune", "slow", "interval_ms=9000")
        assert poll(lambda: verdict("host pace")), told()
        lines = told()
        assert lines["limited by"].startswith("host pace")
        assert "9,000 ms" in lines["slowest host"]
        worker.terminate()
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 11, err
        assert rows.paces(sql, crawl.id) == []


@pytest.fixture
async def worker(database, monkeypatch):
    """Yield what the extension reads of a worker that fetches one page and has fetched some."""
    monkeypatch.setattr(pace, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pace, "WRITE_SECONDS", 0.05)
    monkeypatch.setattr(pace, "PATIENCE", 0.2)
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker="w1", lease_seconds=60, config={}
    )
    visit = SimpleNamespace(done=False, pending_items=0, started=1.0, ended=0.0)
    worker = SimpleNamespace(
        id="w1", crawl=crawl, life=database.another("life"), is_open=True, draining=False, stopping=False,
        visits={1: visit}, tally=Counter({"fetch:done": 7, "ms:40": 5, "ms:44": 2}),
        config=SimpleNamespace(max_concurrent_count=1),
        frontier=SimpleNamespace(figures=Figures(queued=3)),
    )  # fmt: skip
    monkeypatch.setattr(Worker, "of", lambda _: worker)
    yield worker
    await worker.life.close()


@pytest.fixture
def extension(worker):
    """Return the extension of that worker."""
    downloader = SimpleNamespace(active={1})
    return PaceExtension(SimpleNamespace(engine=SimpleNamespace(downloader=downloader)))


async def written(sql, crawl, condition=bool):
    async with asyncio.timeout(20):
        while True:
            found = rows.paces(sql, crawl.id)
            if found and condition(found[0]):
                return found[0]
            await asyncio.sleep(0.02)


async def test_what_is_written(extension, worker, sql):
    """Pages, durations and the shares of causes; nothing after the spider has closed."""
    extension.engine_started()
    found = await written(sql, worker.crawl)
    assert (found["pages"], found["in_flight"], found["rate"]) == (7, 1, None)
    assert found["durations"] == {"40": 5, "44": 2}
    assert (found["p50_ms"], found["p95_ms"]) == (1160, 2368)
    assert sum(found["causes"].values()) == pytest.approx(1, abs=0.01)
    assert found["causes"]["workers"] > 0.5
    await extension.spider_closed()
    sql.execute("UPDATE worker_lease SET pace = NULL")
    await asyncio.sleep(0.2)
    assert rows.paces(sql, worker.crawl.id) == []


async def test_a_store_that_holds_the_connection(extension, worker, database, sql):
    """The pace is written although the connection for pages is in use, and tells why nothing goes on."""
    visit = worker.visits[1]
    visit.done, visit.ended = True, 2.0
    extension._crawler.engine.downloader.active.clear()
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(_):
        held.set()
        await release.wait()

    store = asyncio.create_task(database.run(hold))
    await held.wait()
    extension.engine_started()
    try:
        found = await written(sql, worker.crawl, lambda found: found["causes"]["database"] > 0.5)
    finally:
        release.set()
        await store
        await extension.spider_closed()
    assert found["causes"]["workers"] < 0.5


async def test_a_database_that_is_away(extension, worker, sql):
    """It costs the figures and nothing else, and closing does not wait for it."""
    worker.life = Database("postgresql://u@127.0.0.1:1/db", name="test")
    extension.engine_started()
    await asyncio.sleep(0.5)
    assert not extension._task.done()
    async with asyncio.timeout(5):
        await extension.spider_closed()
    assert rows.paces(sql, worker.crawl.id) == []


async def test_a_worker_that_is_not_open(extension, worker):
    """It has not come as far as a crawl, and says nothing."""
    worker.is_open = False
    extension.engine_started()
    await extension.spider_closed()
    assert extension._task is None


def test_a_thread_that_computes_wants_a_processor():
    """Whether it gets one all the time or has to wait for it; one that sleeps wants none."""

    def share(seconds, step):
        began, wanted = time.monotonic(), pace._wanted()
        while time.monotonic() - began < seconds:
            step()
        return (pace._wanted() - wanted) / (time.monotonic() - began)

    assert share(0.3, lambda: None) > 0.6
    assert share(0.3, lambda: time.sleep(0.1)) < 0.4
