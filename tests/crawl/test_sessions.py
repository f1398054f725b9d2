"""Whoever logs in does so for all workers of the run, and for no other site."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from aiohttp import web

from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

ITEMS = [f"/item/{number}" for number in range(40)]


class Shop:
    """A site whose items are for those who have been to /login, which answers when it is let."""

    def __init__(self, site: Site) -> None:
        self.came: dict[str, Counter[str]] = defaultdict(Counter)  #: by worker: who was let in, and who not
        self.opens = threading.Event()
        site.add("/login", self._login)
        site.add("/item/*", self._item, delay=0.1)

    async def _login(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self.opens.wait, 60)
        page = web.Response(text=linking(*ITEMS), content_type="text/html")
        page.set_cookie("session", "1")
        return page

    def _item(self, request: web.Request) -> web.Response | str:
        inside = request.cookies.get("session") == "1"
        self.came[request.headers["User-Agent"]]["inside" if inside else "outside"] += 1
        return linking() if inside else web.Response(status=302, headers={"Location": "/login"})


def by_two(site: Site, scrapy: Project, **settings: object) -> Shop:
    """Crawl with two workers that share the work."""
    shop = Shop(site)
    shared = {
        "CRAWL_NAME": "shop",
        "MIN_INTERVAL_MS": 0,
        "HOST_MAX_IN_FLIGHT": 4,
        "MAX_CONCURRENT_COUNT": 1,
        **settings,
    }
    crawl = ("crawl", "site", "-a", f"seeds={site.url}/login")
    running = []
    try:
        for number in (1, 2):
            running.append(scrapy.start(*crawl, settings={**shared, "USER_AGENT": f"worker-{number}"}))
            assert poll(lambda: site.hits["/login"])
        assert poll(lambda: len(status(scrapy, "shop")["workers"]) == 2)
    finally:
        shop.opens.set()  # else the thread that waits for it would hold the tests up
    for each in running:
        stderr = each.communicate(timeout=TIMEOUT)[1]
        assert each.returncode == 0, stderr
    return shop


def test_a_session_is_that_of_all_workers(site: Site, scrapy: Project) -> None:
    """One of two workers logs in, both come in."""
    came = by_two(site, scrapy).came
    assert set(came) == {"worker-1", "worker-2"}
    assert sum(each["outside"] for each in came.values()) == 0
    rows = scrapy("pages", "shop", "--json", "--limit", "0").json
    assert Counter(row["fetch_status"] for row in rows) == {"done": len(ITEMS) + 1}


def test_each_worker_may_have_its_own(site: Site, scrapy: Project) -> None:
    """With COOKIES_SHARED off the other worker is sent to the login, and no such page counts as done."""
    came = by_two(site, scrapy, COOKIES_SHARED="false").came
    outside = sum(each["outside"] for each in came.values())
    assert outside
    rows = scrapy("pages", "shop", "--json", "--limit", "0").json
    assert Counter(row["reason"] for row in rows)["redirected"] == outside


def test_a_session_goes_on_after_a_restart_and_ends_with_the_run(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Sessions by name, cookies of a request and deleted ones; another run begins without any."""
    sent: dict[str, list[str]] = defaultdict(list)

    def page(request: web.Request) -> web.Response:
        sent[request.path].append(request.headers.get("Cookie", ""))
        answer = web.Response(text=linking(), content_type="text/html")
        if request.path.startswith("/in"):
            answer.set_cookie("who", request.path[-1])
        if request.path == "/out-a":
            answer.del_cookie("who")
        return answer

    for path in ("/in-a", "/in-b", "/out-a", "/one-a", "/one-b", "/two-a", "/two-b"):
        site.add(path, page)
    spider_source("""
from scrapy import Request, Spider

class Sessions(Spider):
    name = "sessions"
    steps = {"in": "out-a one-b", "out": "one-a", "one": "two-a two-b"}

    async def start(self):
        yield Request(self.url + "/in-a", cookies={"mine": "1"}, meta={"cookiejar": "a"})
        yield Request(self.url + "/in-b", meta={"cookiejar": "b"})

    def parse(self, response):
        step, who = response.url.rpartition("/")[2].split("-")
        for each in self.steps.get(step, "").split():
            if each.endswith(who):
                yield Request(self.url + "/" + each, meta={"cookiejar": who})
""")
    for target, paths in ((4, 4), (0, 7)):
        settings = {"CRAWL_NAME": "s", "CLOSESPIDER_PAGECOUNT": target, "MAX_CONCURRENT_COUNT": 1}
        result = crawl("sessions", settings, url=site.url)
        assert result.returncode == 0, result.stderr
        assert target == 0 or len(sent) < paths + 3
    assert sent["/one-a"] == ["mine=1"]
    assert sent["/two-a"] == ["mine=1"]
    assert sent["/one-b"] == sent["/two-b"] == ["who=b"]
    first = len(sent["/in-a"])
    crawl("sessions", {"CRAWL_NAME": "s"}, url=site.url)
    assert sent["/in-b"][first:] == [""]
