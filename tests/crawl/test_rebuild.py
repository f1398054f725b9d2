"""A frontier that Redis has lost comes back from what PostgreSQL knows."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from aiohttp import web

from crawlproj.connections import connect_database, open_redis, open_redis_sync
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts
from tests.crawl.support import figures, linking, poll, status
from tests.redis_server import OwnRedis

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from crawlproj.frontier.records import Pending
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

PAGES = 300
T = TypeVar("T")

SPIDER = """
from scrapy import FormRequest, Request, Spider

class OddSpider(Spider):
    name = "odd"
    handle_httpstatus_list = [404]

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        yield Request(self.home + "/missing", self.parse_missing)
        yield Request("http://127.0.0.1:1/", self.parse_page, errback=self.lost, meta={"dont_retry": True})
        yield Request(self.home + "/moved", self.parse_page, meta={"page": 7}, cb_kwargs={"n": 1}, priority=3)
        yield FormRequest(self.home + "/form", self.parse_form, formdata={"a": "1"})
        yield Request(self.home + "/retried", self.parse_page, headers={"X-Kind": "odd"})
        yield Request(self.once + "/poll", self.parse_poll, dont_filter=True)
        yield {"url": self.home + "/item"}
        yield {"name": "without a URL"}

    def parse_missing(self, response):
        yield Request(self.held + "/from-404", self.parse_page, cookies={"c": "1"})

    def lost(self, failure):
        yield Request(self.held + "/from-errback", self.parse_page, meta={"t": ("a", 1)})

    def parse_form(self, response):
        yield FormRequest(self.home + "/form", self.parse_form, formdata={"a": "1"})
        yield FormRequest(self.held + "/form", self.parse_form, formdata={"a": "2"})
        yield Request(self.twice + "/itself", self.parse_page, priority=-4)

    def parse_poll(self, response):
        yield Request(self.once + "/poll", self.parse_poll, dont_filter=True, priority=-5)

    def parse_page(self, response, n=0):
        yield {"url": response.url}
"""


def ask(redis_url: str, work: Callable[[Frontier], Awaitable[T]]) -> T:
    """Do something with the one frontier there is."""

    async def run() -> T:
        redis = open_redis(redis_url)
        scripts = Scripts(redis, "test")
        keys = [key async for key in redis.scan_iter("frontier:*:ctl")]
        try:
            return await work(Frontier(redis, scripts, keys[0].decode().split(":")[1].strip("{}")))
        finally:
            await scripts.close()
            await redis.aclose()

    return asyncio.run(run())


async def pending(frontier: Frontier) -> list[Pending]:
    """Return what is queued, in a fixed order."""
    found = [each async for each in frontier.dump_pending()]
    return sorted(found, key=lambda each: (each.host, each.entry))


async def checked(frontier: Frontier) -> list[Pending]:
    """Return what is queued in a frontier that is consistent and goes on."""
    assert await frontier.check() == []
    assert not (await frontier.refresh()).paused
    return await pending(frontier)


@pytest.mark.timeout(240)
def test_redis_killed_and_its_data_deleted_half_way(
    site: Site, scrapy: Project, tmp_path: Path, valkey_url: str
) -> None:
    """The crawl goes on where it was: every page is fetched, as in a run that nothing happened to."""
    for n in range(PAGES):
        others = {(n * 2 + 1) % PAGES, (n * 2 + 2) % PAGES, (n * 7) % PAGES}
        site.add(f"/{n}", linking(*(f"/{other}" for other in sorted(others))), delay=0.02)
    folder = tmp_path / "redis"
    folder.mkdir()
    server = OwnRedis(folder, valkey_url)
    server.start()
    scrapy.env["REDIS_URL"] = server.url
    crawl = ("crawl", "site", "-a", f"seeds={site.url}/0")
    settings = {"CRAWL_NAME": "lost", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4}
    worker = scrapy.start(*crawl, settings=settings)
    try:
        assert poll(lambda: len(site.requests) > PAGES // 2)
        server.kill()
        worker.kill()
        worker.wait()
        shutil.rmtree(folder / "appendonlydir")
        server.start()
        before = len(site.requests)
        done = scrapy("rebuild", "lost", "--json").json[0]
        assert done["seen"] == status(scrapy, "lost")["counts"]["fetch_status"]["done"] >= PAGES // 2 - 10
        assert status(scrapy, "lost")["queued"] == done["queued"] > 0
        last = scrapy(*crawl, settings=settings)
        assert last.returncode == 0, last.stderr
        pages = scrapy("pages", "lost", "--json", "--limit", "0").json
        end = status(scrapy, "lost")
    finally:
        server.kill()
    assert {page["url"] for page in pages} == {f"{site.url}/{n}" for n in range(PAGES)}
    assert {page["fetch_status"] for page in pages} == {"done"}
    assert end["status"] == "sealed"
    assert end["started_targets"] == end["results"] == PAGES
    # What was on the wire when the worker died is fetched again, and nothing else.
    assert len(site.requests) - before <= PAGES - done["seen"] + 1  # robots.txt


@pytest.mark.timeout(240)
def test_everything_that_was_queued_is_queued_again(
    site: Site, scrapy: Project, spider_source: Callable[[str], None], redis_url: str, database_url: str
) -> None:
    """Callbacks, meta, bodies, priorities, attempts; from errbacks, redirects, error pages, polls."""
    spider_source(SPIDER)
    held, once, twice = (site.host(number) for number in (2, 3, 4))
    for path in ("/", "/poll", "/form"):
        site.add(path, linking())
    site.add("/missing", linking(), status=404)
    site.add("/retried", linking(), status=500)

    def redirect(request: web.Request) -> web.Response:
        to = f"{held}/target" if request.path == "/moved" else str(request.url)
        return web.Response(status=302, headers={"Location": to, "Set-Cookie": "been=1"})

    for path in ("/moved", "/itself"):
        site.add(path, redirect)
    settings: dict[str, Any] = {
        "CRAWL_NAME": "odd", "MIN_INTERVAL_MS": 0, "FRONTIER_PAUSE_AT_START": 1, "LEASE_SECONDS": 5,
        "FRONTIER_RETRY_DELAY_MS": 900_000, "FRONTIER_RETRY_DELAY_MAX_MS": 900_000,
    }  # fmt: skip
    addresses = {"home": site.url, "held": held, "once": once, "twice": twice}
    arguments = [word for name, url in addresses.items() for word in ("-a", f"{name}={url}")]
    worker = scrapy.start("crawl", "odd", *arguments, settings=settings)
    with open_redis_sync(redis_url) as redis, connect_database(database_url) as sql:
        assert poll(lambda: list(redis.scan_iter("frontier:*:ctl")))

        async def hold(frontier: Frontier) -> None:
            await frontier.block(held.removeprefix("http://"))
            for url in (once, twice):  # one fetch, and it retires
                await frontier.set_host(url.removeprefix("http://"), total_budget=1)
            await frontier.resume()

        ask(redis_url, hold)
        wanted = {"/from-404", "/from-errback", "/target", "/form", "/itself", "/poll", "/retried"}

        async def complete(frontier: Frontier) -> bool:
            entries = [each.entry.partition(b"\n")[0].decode() for each in await pending(frontier)]
            quiet = (await frontier.refresh()).leased == 0
            return quiet and {entry[entry.index("/") :] for entry in entries} == wanted

        assert poll(lambda: ask(redis_url, complete), 60), ask(redis_url, pending)
        worker.kill()
        worker.wait()
        before, counted = ask(redis_url, checked), figures(redis)
        redis.flushdb()
        lost = scrapy("pending", "odd")
        assert (lost.returncode, "`scrapy rebuild odd`" in lost.stderr) == (4, True)
        for words in ((), (), ("--force",)):  # from the second time on nothing is added
            done = scrapy("rebuild", "odd", *words, "--json").json[0]
            if not words:  # as if it had been killed before it came to its end
                sql.execute("DELETE FROM note WHERE fields ->> 'state' = 'done'")
            after, recounted = ask(redis_url, checked), figures(redis)
            assert [(each.host, each.entry, each.priority) for each in after] == [
                (each.host, each.entry, each.priority) for each in before
            ]
            assert {each.entry: each.attempts for each in after} == {
                each.entry: each.attempts for each in before
            }
            for name in ("started", "results", "queued", "fresh", "bytes", "admitted"):
                assert (name, recounted[name]) == (name, counted[name])
        assert done["unreadable"] == 0


@pytest.mark.timeout(240)
def test_refused(site: Site, scrapy: Project) -> None:
    """Unknown, over, not begun, without a log, with a frontier: one sentence each, and nothing is changed."""
    site.add("/", linking("/a"))
    site.add("/a", linking())
    site.add("/a", linking(), delay=30, host="127.0.0.1")
    nobody = scrapy("rebuild", "nobody")
    assert (nobody.returncode, nobody.stdout) == (3, "")
    worker = scrapy.start(
        "crawl", "site", "-a", f"seeds={site.url}/", settings={"CRAWL_NAME": "there", "MIN_INTERVAL_MS": 0}
    )
    assert poll(lambda: site.hits["/a"])
    refused = scrapy("rebuild", "there")
    assert refused.returncode == 4
    assert "has its frontier: 0 queued, 2 seen" in refused.stderr
    worker.kill()
    worker.wait()
    for name, kept, sentence in (
        ("over", "true", "is sealed: nothing of it is left to do"),
        ("short", "false", "keeps no links (FRONTIER_RECOVERY_LOG is off)"),
    ):
        settings = {
            "CRAWL_NAME": name, "MIN_INTERVAL_MS": 0, "FRONTIER_RECOVERY_LOG": kept,
            "CLOSESPIDER_PAGECOUNT": 1 if name == "short" else 0,
        }  # fmt: skip
        # On a host of its own: the worker that was killed still has its place on the first one.
        done = scrapy("crawl", "site", "-a", f"seeds={site.host(2)}/", settings=settings)
        assert done.returncode == 0, done.stderr
        refused = scrapy("rebuild", name)
        assert (refused.returncode, sentence in refused.stderr) == (4, True), refused.stderr
        assert len(refused.stderr.splitlines()) == 1
