"""The rules that make a crawl safe, each shown by a whole crawl that breaks without it."""

from __future__ import annotations

import asyncio
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from aiohttp import web
from redis import Redis

from crawlproj.frontier.entries import Entry
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import bomb, figures, linking, poll, push, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


def test_a_request_that_cannot_be_kept_leaves_no_mark(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Rule 1: refused aloud, not marked seen; asked for properly afterwards it is fetched."""
    site.add("/", linking())
    site.add("/x", linking())
    spider_source("""
from scrapy import Request, Spider

class Careless(Spider):
    name = "careless"

    async def start(self):
        yield Request(self.url + "/")

    def parse(self, response):
        yield Request(self.url + "/x", callback=lambda response: None)
        yield Request(self.url + "/x", meta={"connection": object()})
        yield Request(self.url + "/x", callback=self.parse_x)

    def parse_x(self, response):
        yield {"found": response.url}
""")
    result = crawl("careless", url=site.url)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("cannot be kept in the frontier") == 2
    assert result.page("/x")["fetch_status"] == "done"
    assert [item["found"] for item in result.items] == [site.url + "/x"]


def test_links_enter_with_the_finish_of_a_committed_page(
    site: Site, crawl: Crawl, scrapy: Project, redis_url: str
) -> None:
    """Rule 2: while the database does not take a page, its lease stays and none of its links is queued."""
    site.add("/", linking("/a", "/b"))
    site.add("/a", linking(), delay=0)
    site.add("/b", linking())
    with psycopg.connect(scrapy.env["DATABASE_URL"], autocommit=True) as database:
        database.execute("BEGIN; LOCK TABLE page_object IN SHARE ROW EXCLUSIVE MODE")
        process = scrapy.start(
            "crawl", "site", "-a", f"seeds={site.url}/", settings={"CRAWL_NAME": "held", "MIN_INTERVAL_MS": 0}
        )
        assert poll(lambda: site.hits["/"])
        with Redis.from_url(redis_url) as redis:
            assert not poll(lambda: site.hits["/a"] or site.hits["/b"], seconds=1.5)
            assert figures(redis)["leased"] == 1
            assert figures(redis)["seen"] == 1
        database.execute("COMMIT")
    assert process.wait(30) == 0
    assert sorted(path for path in site.hits if len(path) == 2) == ["/a", "/b"]


def test_every_way_to_end_is_one_outcome(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Rule 3: callback, errback, exceptions, DNS, timeout, robots, offsite, redirects, bombs: one row."""
    site.add("/robots.txt", "User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    for path in ("/good", "/raises", "/raises-late", "/twice"):
        site.add(path, linking())
    site.add("/secret", linking())
    site.add("/500", "no", status=500)
    site.add("/404", "no", status=404)
    site.add("/slow", linking(), delay=5)
    site.add("/self", "", status=302, headers={"Location": "/self"})
    site.add("/moved", "", status=301, headers={"Location": "/good"})
    site.add_raw("/cut", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Type: text/html\r\n\r\n<p>half")
    site.add("/bomb", bomb(), headers={"Content-Encoding": "gzip"})
    spider_source("""
from scrapy import Request, Spider

class Outcomes(Spider):
    name = "outcomes"
    allowed_domains = ["127.0.0.1", "nowhere.invalid"]

    def parse(self, response):
        for path in self.paths.split():
            yield Request(self.url + path, callback=self.end, errback=self.failed)
        yield Request("http://nowhere.invalid/", callback=self.end, errback=self.failed)
        yield Request("http://elsewhere.invalid/", callback=self.end, errback=self.failed)

    async def start(self):
        yield Request(self.url + "/good")

    def end(self, response):
        if "raises" == response.url.rpartition("/")[2]:
            raise ValueError("before")
        return self.late(response)

    def late(self, response):
        yield {"url": response.url}
        if "late" in response.url:
            raise ValueError("after")

    def failed(self, failure):
        yield {"failed": failure.request.url}
""")
    paths = [
        "/raises",
        "/raises-late",
        "/twice",
        "/secret",
        "/500",
        "/404",
        "/slow",
        "/self",
        "/moved",
        "/cut",
        "/bomb",
    ]
    settings = {
        "MAX_ATTEMPTS": 2,
        "DOWNLOAD_TIMEOUT": 1,
        "DOWNLOAD_MAXSIZE": 1_000_000,
        "HOST_MAX_IN_FLIGHT": 8,
    }
    result = crawl("outcomes", settings, url=site.url, paths=" ".join(paths))
    assert result.returncode == 0, result.stderr
    rows = {row["url"]: row for row in result.pages}
    assert len(rows) == len(result.pages) == len(paths) + 2  # elsewhere is offsite, before it is queued
    found = {
        url.removeprefix(site.url): (row["fetch_status"], row["schedule_status"], row["reason"])
        for url, row in rows.items()
    }
    assert found == {
        "/good": ("done", "succeeded", None),
        "/raises": ("done", "succeeded", "callback_error"),
        "/raises-late": ("done", "succeeded", "callback_error"),
        "/twice": ("done", "succeeded", None),
        "/secret": (None, "disregarded", "robots"),
        "/500": ("failed", "failed", "http_500"),
        "/404": ("failed", "failed", "http_404"),
        "/slow": ("failed", "failed", "timeout"),
        "/self": ("failed", "failed", "too_many_redirects"),
        "/moved": (None, "succeeded", "redirected"),
        "/cut": ("failed", "failed", "truncated"),
        "/bomb": ("failed", "failed", "too_large"),
        "http://nowhere.invalid/": ("failed", "failed", "dns"),
    }
    assert result.status["status"] == "sealed"
    assert (result.status["queued"], result.status["leased"]) == (0, 0)
    failed = sorted(item["failed"].removeprefix(site.url) for item in result.items if "failed" in item)
    assert failed == ["/404", "/500", "/bomb", "/cut", "/secret", "/self", "/slow", "http://nowhere.invalid/"]
    assert len(site.hits["/500"]) == 2
    assert len(site.hits["/bomb"]) == 1


def test_only_the_downloader_talks_to_the_site(site: Site, crawl: Crawl) -> None:
    """Rule 4: all that arrives carries the downloader's User-Agent, robots.txt included."""
    site.add("/", linking("/a"))
    site.add("/a", linking())
    result = crawl("site", {"USER_AGENT": "one-voice"}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert {hit.path for hit in site.requests} == {"/robots.txt", "/", "/a"}
    assert {hit.headers["User-Agent"] for hit in site.requests} == {"one-voice"}


def test_sealing_waits_for_every_worker(site: Site, scrapy: Project) -> None:
    """Rule 6: a worker with nothing to do stays while another holds a page that may bring links."""
    released = threading.Event()

    async def held(_: object) -> str:
        await asyncio.to_thread(released.wait)
        return linking(*(f"/{n}" for n in range(10)))

    site.add("/", held)
    for n in range(10):
        site.add(f"/{n}", linking())
    settings = {"CRAWL_NAME": "pair", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4}
    first = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    try:
        assert poll(lambda: site.hits["/"])
        second = scrapy.start(
            "crawl", "site", "-a", f"seeds={site.url}/", settings={**settings, "CRAWL_JOIN": "1"}
        )
        assert poll(lambda: len(status(scrapy, "pair")["workers"]) == 2)
        assert not poll(lambda: second.poll() is not None, seconds=6)  # the engine asks every 5 s
    finally:
        released.set()  # else the thread that waits for it would hold the tests up for ever
    assert (first.wait(20), second.wait(20)) == (0, 0)
    assert {len(site.hits[f"/{n}"]) for n in range(10)} == {1}
    assert len(site.hits["/"]) == 1
    assert status(scrapy, "pair")["status"] == "sealed"
    assert status(scrapy, "pair")["counts"]["fetch_status"]["done"] == 11


def test_nothing_in_the_queue_is_ever_unpickled(
    site: Site, scrapy: Project, redis_url: str, tmp_path: Path
) -> None:
    """Rule 7: a poisoned entry is refused and reported, runs nothing, and the crawl goes on."""
    marker = tmp_path / "ran"

    class Poison:
        def __reduce__(self) -> tuple[object, ...]:
            return open, (str(marker), "w")

    site.add("/", linking("/a", "/b"), delay=2)
    site.add("/a", linking())
    site.add("/b", linking())
    settings = {"CRAWL_NAME": "poisoned", "MIN_INTERVAL_MS": 0}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    assert poll(lambda: site.hits["/"])
    host = site.url.removeprefix("http://")
    poison = [pickle.dumps(Poison()).decode("latin-1"), "rubbish"]
    entries = [
        Entry(f"{site.url}/{number}", host, number, data) for number, data in enumerate(poison, start=1)
    ]
    asyncio.run(push(redis_url, entries))
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
    assert stderr.count("cannot be read") == 2
    assert (len(site.hits["/a"]), len(site.hits["/b"])) == (1, 1)
    assert not marker.exists()


def test_a_host_has_no_more_in_flight_than_allowed(site: Site, crawl: Crawl) -> None:
    """Rule 8: what Scrapy on asyncio does not enforce, the frontier and the throttle do."""
    now, most = [0], [0]

    async def slow(_: object) -> str:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.05)
        now[0] -= 1
        return linking()

    site.add("/", linking(*(f"/p{n}" for n in range(20))))
    site.add("/p*", slow)
    result = crawl("site", {"HOST_MAX_IN_FLIGHT": 2}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert result.status["counts"]["fetch_status"]["done"] == 21
    assert most[0] == 2


def test_start_requests_enter_once_per_run(
    site: Site, crawl: Crawl, scrapy: Project, spider_source: Callable[[str], None]
) -> None:
    """Rule 10: two workers and dont_filter bring a start request once; a later dont_filter always queues."""
    site.add("/", linking(), delay=1)
    spider_source("""
from scrapy import Request, Spider

class Eager(Spider):
    name = "eager"

    async def start(self):
        for _ in range(2):
            yield Request(self.url + "/", dont_filter=True)

    def parse(self, response):
        if not response.meta.get("again"):
            yield Request(self.url + "/", dont_filter=True, meta={"again": 1})
""")
    settings = {"CRAWL_NAME": "eager", "MIN_INTERVAL_MS": 0}
    other = scrapy.start("crawl", "eager", "-a", f"url={site.url}", settings=settings)
    result = crawl("eager", settings, url=site.url)
    assert other.wait(30) == 0
    assert result.returncode == 0, result.stderr
    assert len(site.hits["/"]) == 2


def test_a_redirect_target_goes_its_own_way(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Rule 11: the source succeeds as redirected; the target keeps callback, meta and redirect count."""
    other = site.host(2)
    port = site.port
    site.add("/r", "", status=302, headers={"Location": f"{other}/target"})
    site.add("/target", linking(), host="127.0.0.2")
    rules = "User-agent: *\nDisallow: /forbidden"
    site.add("/robots.txt", rules, host="127.0.0.2", headers={"Content-Type": "text/plain"})
    site.add("/r2", "", status=302, headers={"Location": f"{other}/forbidden"})
    site.add("/forbidden", linking(), host="127.0.0.2")
    site.add("/sort", "", status=302, headers={"Location": "/cookie?b=2&a=1"})
    jar: list[str | None] = []

    def cookie(request: web.Request) -> web.Response | str:
        jar.append(request.headers.get("Cookie"))
        if jar[-1] is None:
            return web.Response(status=302, headers={"Location": "/cookie?a=1&b=2", "Set-Cookie": "ok=1"})
        return linking()

    site.add("/cookie", cookie)
    spider_source("""
from scrapy import Request, Spider

class Follows(Spider):
    name = "follows"

    async def start(self):
        for path in ("/r", "/r2", "/sort"):
            yield Request(self.url + path, callback=self.found, meta={"mark": path})

    def found(self, response):
        yield {"url": response.url, "mark": response.meta["mark"], "times": response.meta["redirect_times"]}
""")
    result = crawl("follows", url=site.url)
    assert result.returncode == 0, result.stderr
    base = site.url
    rows = {row["url"]: (row["fetch_status"], row["schedule_status"], row["reason"]) for row in result.pages}
    for path in ("/r", "/r2", "/sort"):
        assert rows[base + path] == (None, "succeeded", "redirected")
    assert rows[f"http://127.0.0.2:{port}/target"] == ("done", "succeeded", None)
    assert rows[f"http://127.0.0.2:{port}/forbidden"] == (None, "disregarded", "robots")
    assert not site.hits["/forbidden"]
    found = {item["mark"]: item for item in result.items}
    assert found["/r"]["times"] == 1
    assert found["/r"]["url"] == f"http://127.0.0.2:{port}/target"
    assert found["/sort"]["times"] == 2
    assert jar == [None, "ok=1"]
    assert result.status["started_targets"] == 3
