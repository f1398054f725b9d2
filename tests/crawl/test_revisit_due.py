"""What is due is visited again, by whatever it was found, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from crawlproj.connections import connect_database
from crawlproj.output import moment
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

DAY = 86_400
WEEKLY = {"CRAWL_NAME": "c", "REVISIT_INTERVAL_SECONDS": 7 * DAY}


@pytest.fixture
def sql(database_url: str) -> Iterator[Connection[Any]]:
    with connect_database(database_url) as connection:
        yield connection


def pass_time(sql: Connection[Any], days: float, like: str = "%") -> None:
    """Let *days* go by for the pages whose URL is *like* this."""
    sql.execute(
        "UPDATE page SET next_fetch_at = next_fetch_at - %(days)s * interval '1 day' WHERE url LIKE %(like)s",
        {"days": days, "like": like},
    )


def asked(site: Site, since: int = 0) -> list[str]:
    """Return the paths of the requests after the first *since*, but for robots.txt."""
    return sorted(hit.path for hit in site.requests[since:] if hit.path != "/robots.txt")


def chain(site: Site) -> None:
    """Make a site whose pages are linked one from the other."""
    for here, there in (("/", "/a"), ("/a", "/b"), ("/b", "/c")):
        site.add(here, linking(there), headers={"ETag": f'"{here}"'})
    site.add("/c", linking(), headers={"ETag": '"c"'})


def test_only_what_is_due_is_fetched(site: Site, crawl: Crawl, sql: Connection[Any]) -> None:
    """Within the interval nothing is, seeds included; after it what is due, linked from what is not."""
    chain(site)
    assert crawl("site", WEEKLY, seeds=site.url + "/").returncode == 0
    # As a worker would have written it whose clock is behind: the database alone knows when a page is due.
    sql.execute("UPDATE page SET fetched_at = fetched_at - interval '8 days'")
    began = len(site.requests)
    nothing = crawl("site", WEEKLY, seeds=site.url + "/")
    assert nothing.returncode == 0, nothing.stderr
    assert (nothing.status["run"], nothing.status["status"], nothing.status["started_targets"]) == (
        2,
        "sealed",
        0,
    )
    assert site.requests[began:] == []
    (soonest,) = sql.execute("SELECT min(next_fetch_at) FROM page").fetchone() or ()
    assert f"· nothing was due; the next page is due {moment(soonest)}\n" in nothing.stderr
    assert "--text" not in nothing.stderr
    pass_time(sql, 6.9)
    pass_time(sql, 0.2, "%/b")
    due = crawl("site", WEEKLY, seeds=site.url + "/")
    assert due.returncode == 0, due.stderr
    assert asked(site, began) == ["/b"]
    assert due.status["counts"]["fetch_status"]["done"] == due.status["started_targets"] == 1
    assert site.requests[-1].headers["If-None-Match"] == '"/b"'
    assert "nothing was due" not in due.stderr


def test_new_pages_are_found_on_those_that_are_due(site: Site, crawl: Crawl, sql: Connection[Any]) -> None:
    """A page that is due shows new links, and links to pages that are not due lead to nothing."""
    chain(site)
    crawl("site", WEEKLY, seeds=site.url + "/")
    site.add("/b", linking("/", "/a", "/c", "/new"), headers={"ETag": '"changed"'})
    site.add("/new", linking("/", "/newer"))
    site.add("/newer", linking())
    pass_time(sql, 8, "%/b")
    began = len(site.requests)
    result = crawl("site", WEEKLY, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert asked(site, began) == ["/b", "/new", "/newer"]
    assert {page["url"]: page["depth"] for page in result.pages}[site.url + "/newer"] == 4


def test_a_page_that_nothing_links_to_is_visited(site: Site, crawl: Crawl) -> None:
    """By default all known pages are due, also those that their site has forgotten."""
    chain(site)
    crawl("site", {"CRAWL_NAME": "c"}, seeds=site.url + "/")
    site.add("/", linking())
    began = len(site.requests)
    result = crawl("site", {"CRAWL_NAME": "c"}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert asked(site, began) == ["/", "/a", "/b", "/c"]


def test_an_interval_that_is_lowered_counts_at_once(site: Site, crawl: Crawl) -> None:
    """A page waits no longer than the interval of now says."""
    chain(site)
    crawl("site", WEEKLY, seeds=site.url + "/")
    began = len(site.requests)
    crawl("site", {"CRAWL_NAME": "c"}, seeds=site.url + "/")
    assert asked(site, began) == ["/", "/a", "/b", "/c"]


def test_a_failure_is_due_in_the_next_run(site: Site, crawl: Crawl) -> None:
    """What a failed visit did not learn the next run tries to; a page that is gone waits for its time."""
    site.add("/", linking("/gone", "/broken", "/back"))
    site.add("/broken", status=403)
    site.add("/back", status=500)
    settings = {**WEEKLY, "MAX_ATTEMPTS": 2}
    crawl("site", settings, seeds=site.url + "/")
    site.add("/back", linking())
    began = len(site.requests)
    result = crawl("site", settings, seeds=site.url + "/")
    assert asked(site, began) == ["/back", "/broken"]
    assert result.page("/back")["fetch_status"] == "done"


def test_what_an_early_stop_has_left_is_found_again(site: Site, crawl: Crawl) -> None:
    """A limit leaves links that were never followed; the next runs get them from pages that are not due."""
    site.add("/", linking(*(f"/{n}" for n in range(9))))
    for n in range(9):
        site.add(f"/{n}", linking())
    settings = {**WEEKLY, "MAX_TARGET": 4}
    for run, targets in ((1, 4), (2, 4), (3, 2), (4, 0)):
        began = len(site.requests)
        result = crawl("site", settings, seeds=site.url + "/")
        assert (result.returncode, result.status["run"]) == (0, run), result.stderr
        assert len(asked(site, began)) == result.status["started_targets"] == targets
    assert {len(times) for path, times in site.hits.items() if path != "/robots.txt"} == {1}


def test_adaptive_intervals(site: Site, crawl: Crawl, sql: Connection[Any]) -> None:
    """What stays as it is is visited less and less often, what changes more and more often, within bounds."""
    site.add("/", linking("/still", "/restless"), headers={"ETag": '"1"'})
    settings = {
        "CRAWL_NAME": "c", "REVISIT_POLICY": "adaptive", "REVISIT_INTERVAL_SECONDS": DAY,
        "REVISIT_MIN_SECONDS": DAY // 2, "REVISIT_MAX_SECONDS": 2 * DAY,
    }  # fmt: skip

    def visits(days: float) -> list[str]:
        if days:
            pass_time(sql, days)
        began = len(site.requests)
        site.add("/still", linking(), headers={"ETag": '"1"'})
        site.add("/restless", linking(f"/#{began}"))
        result = crawl("site", settings, seeds=site.url + "/")
        assert result.returncode == 0, result.stderr
        return asked(site, began)

    assert visits(0) == ["/", "/restless", "/still"]
    assert visits(0.99) == []
    assert visits(0.02) == ["/", "/restless", "/still"]
    # From now on 1.4 days, 0.8 days, and 1.4 days: the front page is the same, without a 304 to say so.
    assert visits(0.81) == ["/restless"]
    assert visits(0.65) == ["/", "/restless", "/still"]
    intervals = dict(sql.execute("SELECT right(url, 8), round(revisit_seconds) FROM page").fetchall())
    assert intervals["restless"] == pytest.approx(max(0.5, 0.8**3) * DAY, abs=1)
    assert {seconds for url, seconds in intervals.items() if url != "restless"} == {1.96 * DAY}


SPIDER = """
from scrapy import FormRequest, Request, Spider

class ShopSpider(Spider):
    name = "shop"
    custom_settings = {"FRONTIER_SOURCE_TAG_SEEDS": True}

    async def start(self):
        yield Request(self.home + "/", self.parse_list, meta={"kind": "list"})

    def parse_list(self, response):
        yield from self.seen(response)
        if response.url.endswith("/"):
            yield Request(self.home + "/item", self.parse_item, meta={"kind": "item", "t": ("a", 1)},
                          cb_kwargs={"n": 7}, headers={"X-Own": "yes"}, cookies={"c": "1"}, priority=3)
            yield Request(self.home + "/moved", self.parse_item, meta={"kind": "moved"})
            yield FormRequest(self.home + "/form", self.parse_list, formdata={"a": "1"})

    def parse_item(self, response, n=0):
        yield from self.seen(response, n=n)

    def seen(self, response, **more):
        meta, sent = response.meta, response.request.headers
        kept = {key: value for key, value in meta.items() if key in ("kind", "t", "depth", "source_tag")}
        yield {"path": response.url.rpartition("/")[2], "chain": len(meta.get("redirect_urls", ())),
               "own": (sent.get("X-Own") or b"").decode(), "priority": response.request.priority,
               "cookie": (sent.get("Cookie") or b"").decode(), **kept, **more}
"""


def test_a_page_is_asked_for_as_it_was(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None], sql: Connection[Any]
) -> None:
    """Callback, meta, arguments, headers, cookies, priority, depth, tag; a form comes from its page."""
    spider_source(SPIDER)
    for path in ("/", "/item", "/form", "/target"):
        site.add(path, linking())
    site.add("/moved", "", status=302, headers={"Location": "/target"})
    settings = {"CRAWL_NAME": "c", "REVISIT_INTERVAL_SECONDS": DAY}
    first = crawl("shop", settings, home=site.url)
    assert first.returncode == 0, first.stderr
    assert len(first.items) == 4
    pass_time(sql, 2)
    pass_time(sql, -2, "%/")  # the page that all of them come from is not due
    began = len(site.requests)
    second = crawl("shop", settings, home=site.url)
    assert second.returncode == 0, second.stderr
    assert asked(site, began) == ["/item", "/moved", "/target"]
    items = {item["path"]: item for item in first.items}
    assert {item["path"]: item for item in second.items} == {
        "item": items["item"],
        "target": {**items["target"], "chain": 0},  # nobody has sent it there this time
    }


def test_what_is_not_wanted_any_more_is_left_alone(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Known pages out of the scope, the depth or the domains of now, or without a callback, stay put."""
    chain(site)
    site.add("/", linking("/a", "/calendar/1"))
    site.add("/calendar/1", linking())
    crawl("site", {"CRAWL_NAME": "c"}, seeds=site.url + "/")
    began = len(site.requests)
    result = crawl("site", {"CRAWL_NAME": "c"}, seeds=site.url + "/", deny="/calendar/", depth=2)
    assert result.returncode == 0, result.stderr
    assert asked(site, began) == ["/", "/a", "/b"]
    assert result.page("/calendar/1")["fetch_status"] == "done"
    assert "'revisit/unwanted': 2" in result.stderr
    # Another spider under the same name: what Scrapy's Offsite says of requests it says of known pages.
    spider_source("""
from scrapy import Request, Spider

class OtherSpider(Spider):
    name = "other"
    allowed_domains = ["else.example"]

    async def start(self):
        yield Request(self.home + "/", meta={"allow_offsite": True})

    def parse(self, response):
        return []
""")
    began = len(site.requests)
    other = crawl("other", {"CRAWL_NAME": "c"}, home=site.url)
    assert other.returncode == 0, other.stderr
    assert asked(site, began) == ["/"]
    # Pages are due, and none is wanted: that is not to be called nothing due.
    spider_source("""
from scrapy import Spider

class IdleSpider(Spider):
    name = "idle"

    async def start(self):
        for nothing in ():
            yield nothing

    def revisits(self, request):
        return False
""")
    idle = crawl("idle", {"CRAWL_NAME": "c"})
    assert (idle.returncode, idle.status["started_targets"]) == (0, 0), idle.stderr
    assert "sealed (done) · 0 pages" in idle.stderr
    assert "nothing was due" not in idle.stderr


def test_a_callback_that_broke_is_called_again(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """Its page is due in the next run and asked for whole: a 304 would keep it from the mended callback."""
    source = """
from scrapy import Request, Spider

class {name}Spider(Spider):
    name = "{name}"

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        yield {{"url": response.url}}
        {line}
"""

    def answer(request: web.Request) -> web.Response:
        known = request.headers.get("If-None-Match") == '"1"'
        text = None if known else linking()
        status = 304 if known else 200
        return web.Response(status=status, text=text, content_type="text/html", headers={"ETag": '"1"'})

    site.add("/", answer)
    spider_source(source.format(name="bad", line="raise KeyError('title')"))
    spider_source(source.format(name="good", line=""))
    first = crawl("bad", WEEKLY, home=site.url)
    assert first.page("/")["reason"] == "callback_error"
    second = crawl("good", WEEKLY, home=site.url)
    assert (second.page("/")["reason"], len(second.items)) == (None, 1)
    third = crawl("good", {"CRAWL_NAME": "c"}, home=site.url)
    assert (third.page("/")["fetch_status"], third.items) == ("not_modified", [])


@pytest.mark.parametrize(
    "settings",
    [{"FRONTIER_PARTITIONS": 3}, {"FRONTIER_SEEN_FILTER": "bloom"}, {"FRONTIER_RECOVERY_LOG": "false"}],
    ids=lambda settings: next(iter(settings)),
)
def test_other_frontiers(settings: dict[str, Any], site: Site, crawl: Crawl, sql: Connection[Any]) -> None:
    """With partitions, a Bloom filter, without a recovery log: the same pages are due."""
    hosts = [site.url, *(site.host(number) for number in range(2, 8))]
    site.add("/", linking(*(f"{host}/{n}" for host in hosts for n in range(3))))
    site.add("/*", linking(*(f"{host}/{n}" for host in hosts for n in range(3))))
    settings = {**WEEKLY, **settings}
    first = crawl("site", settings, seeds=site.url + "/", scope="any")
    assert (first.returncode, len(first.pages)) == (0, 22), first.stderr
    pass_time(sql, 8, "%/1")
    began = len(site.requests)
    second = crawl("site", settings, seeds=site.url + "/", scope="any")
    assert second.returncode == 0, second.stderr
    assert asked(site, began) == ["/1"] * 7
    assert second.status["started_targets"] == 7


def test_pauses(site: Site, scrapy: Project) -> None:
    """At its start a run waits with its known pages; at its finish it pauses once all of them are visited."""
    chain(site)
    settings = {"CRAWL_NAME": "c", "MIN_INTERVAL_MS": 0}
    crawl = ("crawl", "site", "-a", f"seeds={site.url}/")
    assert scrapy(*crawl, settings=settings).returncode == 0
    began = len(site.requests)
    pauses = {**settings, "FRONTIER_PAUSE_AT_START": 1, "FRONTIER_PAUSE_AT_FINISH": 1}
    worker = scrapy.start(*crawl, settings=pauses)
    assert poll(lambda: (now := status(scrapy, "c"))["run"] == 2 and now["queued"] == 4)
    assert asked(site, began) == []
    assert scrapy("resume", "c").returncode == 0
    assert poll(lambda: status(scrapy, "c")["results"] == 4)
    assert not poll(lambda: worker.poll() is not None, 2)
    assert asked(site, began) == ["/", "/a", "/b", "/c"]
    assert scrapy("resume", "c").returncode == 0
    stderr = worker.communicate(timeout=TIMEOUT)[1]
    assert worker.returncode == 0, stderr
    assert status(scrapy, "c")["status"] == "sealed"
