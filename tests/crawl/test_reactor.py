"""Rule 5: Redis never holds the event loop up, and known links never reach it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from scrapy.http import HtmlResponse

from crawlproj.testing.project import TIMEOUT
from spiders.site import SiteSpider
from tests.crawl.support import linking, poll
from tests.redis_server import OwnRedis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


@pytest.fixture
def own_redis(tmp_path: Path, valkey_url: str) -> Iterator[OwnRedis]:
    """A server that may be frozen."""
    server = OwnRedis(tmp_path, valkey_url)
    server.start()
    yield server
    server.thaw()
    server.kill()


def test_a_frozen_redis_does_not_freeze_the_loop(
    site: Site, scrapy: Project, spider_source: Callable[[str], None], own_redis: OwnRedis
) -> None:
    """While Redis accepts and answers nothing for three seconds, the loop goes on turning."""
    for n in range(60):
        site.add(f"/{n}", linking(*(f"/{each}" for each in range(n, min(n + 3, 60)))), delay=0.05)
    spider_source("""
import asyncio, time
from scrapy import Request, Spider

class Ticking(Spider):
    name = "ticking"

    async def start(self):
        self.worst = 0.0
        self.ticker = asyncio.get_running_loop().create_task(self.tick())
        yield Request(self.url + "/0")

    async def tick(self):
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            self.worst = max(self.worst, time.monotonic() - began)

    def parse(self, response):
        yield from response.follow_all(css="a")

    def closed(self, reason):
        self.ticker.cancel()
        self.logger.warning("worst=%.3f", self.worst)
""")
    scrapy.env["REDIS_URL"] = own_redis.url
    settings = {"CRAWL_NAME": "ticking", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 2, "LEASE_SECONDS": 5}
    process = scrapy.start("crawl", "ticking", "-a", f"url={site.url}", settings=settings)
    assert poll(lambda: len(site.requests) > 8)
    own_redis.freeze()
    time.sleep(3)  # the outage
    own_redis.thaw()
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
    worst = float(stderr.rpartition("worst=")[2].split()[0])
    assert worst < 1, stderr  # a blocking call would have stood still for all three seconds


def test_links_that_the_worker_knows_do_not_go_to_redis(site: Site, crawl: Crawl, redis_url: str) -> None:
    """Twenty pages that link to all twenty: each link is sent about once, not twenty times."""
    paths = [f"/{n}" for n in range(20)]
    for path in paths:
        site.add(path, linking(*paths))
    with Redis.from_url(redis_url) as redis:
        before = added(redis)
        result = crawl("site", seeds=site.url + "/0")
        assert result.returncode == 0, result.stderr
        assert result.status["counts"]["fetch_status"]["done"] == 20
        assert added(redis) - before < 100  # 400 links are on the pages; each page and result is one call


def added(redis: Redis) -> int:
    """Return how often anything was added to a set."""
    return int(redis.info("commandstats").get("cmdstat_sadd", {}).get("calls", 0))


LARGE = {
    "rows": "<table>" + "<tr><td>cell a</td><td>cell b</td><td>1</td></tr>" * 20_000 + "</table>",
    "prose": "".join(f"<p>{'word ' * 40}<b>bold</b> {n}</p>" for n in range(7_000)),
    "paragraph": "<p>" + "some words that go on " * 90_000,
    "script": "<p>text<script>" + "function(a,b){return a<b&&c>d}" * 170_000 + "</script>",
    "links": "".join(f"<a href='/page/{n}'>a link to page {n}</a> " for n in range(14_000)),
    "divs": "x" + "<div>" * 390_000,
    "lists": "<ul><li>a" * 14_000,
    "entities": "<p>" + "&amp;&lt;&eacute;&#8211;" * 85_000,
    "Chinese": "<p>" + "今年一月的第一个星期港口结了冰。" * 110_000,
    "fonts": "".join(f"<p><font color={n}>a" for n in range(10_000)),
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x</p>",
}


def test_large_and_odd_pages_do_not_hold_the_loop_up(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """No turn of the loop works for long on a page of megabytes; small pages of others go on.

    What is measured is the loop's own work, not how long it had to wait for a busy machine. How long single
    calls in threads keep the interpreter to themselves is bounded in tests/pages/test_text.py.
    """
    for name, page in LARGE.items():
        site.add(f"/{name}", page)
    site.add("/Japanese", "港が凍り、渡し船は動けなくなった。".encode("shift_jis") * 200_000)
    for n in range(50):
        site.add(f"/small/{n}", linking(f"/small/{n + 1}"))
    spider_source("""
import asyncio, time
from spiders.site import SiteSpider

class Ticking(SiteSpider):
    name = "ticking"

    async def start(self):
        self.worst = 0.0
        self.ticker = asyncio.get_running_loop().create_task(self.tick())
        async for request in super().start():
            yield request

    async def tick(self):
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            self.worst = max(self.worst, time.thread_time() - began)

    def closed(self, reason):
        self.ticker.cancel()
        self.logger.warning("worst=%.3f", self.worst)
""")
    large = [f"{site.url}/{name}" for name in (*LARGE, "Japanese")]
    seeds = [*large, f"{site.host(2)}/small/0"]
    result = crawl("ticking", {"HOST_MAX_IN_FLIGHT": 4}, seeds=seeds, deny="/page/")
    assert result.returncode == 0, result.stderr
    pages = {page["url"]: page for page in result.pages}
    assert {pages[url]["fetch_status"] for url in large} == {"done"}
    assert len(site.hits["/small/40"]) == 1
    assert float(result.stderr.rpartition("worst=")[2].split()[0]) < 0.04, result.stderr  # 0.01 s


def test_the_links_of_a_large_page_are_an_ordinary_iterable() -> None:
    """A spider built on `site` may go through them as through those of a small one."""
    spider = SiteSpider(seeds="http://a.example/")
    for padding in ("", " " * 100_000):
        response = HtmlResponse("http://a.example/", body=f"<a href=/x>x</a>{padding}".encode())
        assert [links.urls for links in spider.parse(response)] == [("http://a.example/x",)]
