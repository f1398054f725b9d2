"""What a limit has left is gone on with, and what is lost is not taken for done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crawlproj.connections import open_redis_sync
from crawlproj.frontier.codec import Codec
from tests.crawl.support import linking, poll, push, status

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

PAGES = 24
FAST = {"MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "LEASE_SECONDS": 3}


def tree(site: Site, *, delay: float = 0) -> None:
    """Make pages, each of which links to two others."""
    for n in range(PAGES):
        site.add(f"/{n}", linking(*(f"/{m}" for m in (2 * n + 1, 2 * n + 2) if m < PAGES)), delay=delay)


def test_the_next_run_goes_on_with_what_a_limit_has_left(site: Site, scrapy: Project) -> None:
    """Five targets, then six results, then what is left: every page is fetched once, in three runs."""
    tree(site)
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")
    fetched, queued = [], []
    for limit in ({"MAX_TARGET": 5}, {"MAX_RESULT": 6}, {}):
        settings = {**FAST, **limit, "CRAWL_NAME": "parts", "EARLY_STOP_QUEUE": "keep"}
        done = scrapy(*command, settings=settings)
        assert done.returncode == 0, done.stderr
        state = status(scrapy, "parts")
        assert (state["status"], state["leased"]) == ("sealed", 0)
        fetched.append(state["counts"]["fetch_status"]["done"])
        queued.append(state["queued"])
        assert state["started_targets"] == fetched[-1]
        if queued[-1]:
            assert len(scrapy("pending", "parts", "--limit", "0", "--json").json) == queued[-1]
    assert fetched[0] == 5
    assert 6 <= fetched[1] <= 10  # what was in flight, at most, is beyond it
    assert (sum(fetched), queued[0] > 0, queued[1] > 0, queued[2]) == (PAGES, True, True, 0)
    assert {path: len(times) for path, times in site.hits.items() if path != "/robots.txt"} == {
        f"/{n}": 1 for n in range(PAGES)
    }
    notes = [scrapy("notes", str(run), "--json").json for run in (1, 2, 3)]
    assert [[note["fields"]["r"] for note in of_run] for of_run in notes] == [
        ["ExceedTargetsCountLimit"],
        ["ExceedResultsCountLimit"],
        [],
    ]


def test_a_frontier_that_is_lost_in_mid_crawl(site: Site, scrapy: Project, redis_url: str) -> None:
    """The worker takes nothing for done: it fails with a sentence, and after a rebuild the run goes on."""
    tree(site, delay=0.3)
    settings = {**FAST, "HOST_MAX_IN_FLIGHT": 1, "CRAWL_NAME": "lost"}
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")
    worker = scrapy.start(*command, settings=settings)
    assert poll(lambda: len(site.requests) > 5)
    with open_redis_sync(redis_url) as redis:
        redis.delete(*redis.scan_iter("frontier:*"))
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 1, err
    assert "Redis has lost the frontier of crawl lost: `scrapy rebuild lost` fills it again" in err
    assert status(scrapy, "lost")["status"] == "started"
    (note,) = scrapy("notes", "lost", "--json").json
    assert (note["namespace"], note["fields"]["reason"]) == ("WORKER_FAILED", "frontier_lost")
    assert scrapy("rebuild", "lost").returncode == 0
    done = scrapy(*command, settings=settings)
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "lost")["counts"]["fetch_status"]["done"] == PAGES


def test_lists_and_depth_hold_for_any_spider(
    site: Site, scrapy: Project, spider_source, redis_url: str
) -> None:
    """What is denied or too deep is let in by no way, and not fetched if it has come in all the same."""
    spider_source(f"""
from scrapy import Spider

class Plain(Spider):
    name = "plain"
    start_urls = ["{site.url}/0", "{site.url}/denied/seed"]

    def parse(self, response):
        yield from response.follow_all(css="a")
""")
    site.add("/0", linking("/1", "/denied/link", "/moved"))
    site.add("/1", linking("/2"))
    site.add("/moved", "", status=302, headers={"Location": "/denied/target"})
    settings = {
        **FAST, "CRAWL_NAME": "lists", "CRAWL_DENY": "/denied/", "MAX_DEPTH": 1,
        "FRONTIER_PAUSE_AT_START": True,
    }  # fmt: skip
    worker = scrapy.start("crawl", "plain", settings=settings)
    assert poll(lambda: scrapy("crawls").stdout and status(scrapy, "lists")["queued"] == 1)
    url = f"{site.url}/denied/before"
    asyncio.run(push(redis_url, [Codec().encode_link(url, 0)]))
    scrapy("resume", "lists")
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert set(site.hits) - {"/robots.txt"} == {"/0", "/1", "/moved"}
    pages = {page["url"].removeprefix(site.url): page for page in scrapy("pages", "lists", "--json").json}
    assert {path: (page["schedule_status"], page["reason"]) for path, page in pages.items()} == {
        "/0": ("succeeded", None),
        "/1": ("succeeded", None),
        "/moved": ("succeeded", "redirected"),
        "/denied/before": ("disregarded", "filtered"),
    }
    story = scrapy("page", url).stdout
    assert "denied by rule 1: /denied/" in story
