"""What people complain about elsewhere: crawls that are lost, start again by themselves, or stand still."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from benchmarks.fleet_site import FleetSite, message, pairs
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll, status
from tests.crawl.test_pace import SLACK_MS

if TYPE_CHECKING:
    from benchmarks.fleet_site import Served
    from crawlproj.demo import LoopThread
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

LEAVES = 20


def news_of(site: Site) -> threading.Event:
    """Make a site whose front page fails at first, and two pages of which wait for an event."""
    answers = iter([503])

    def front(_: web.Request) -> web.Response:
        body = linking("/denied/1", *(f"/{n}" for n in range(LEAVES)))
        return web.Response(text=body, content_type="text/html", status=next(answers, 200))

    go_on = threading.Event()

    async def held(_: web.Request) -> str:
        await asyncio.to_thread(go_on.wait, TIMEOUT)
        return linking()

    site.add("/", front)
    for n in range(LEAVES):
        site.add(f"/{n}", held if n in {8, 9} else linking(), delay=0.2)
    return go_on


@pytest.mark.timeout(180)
def test_a_crawl_outlives_all_that_happens_to_it(site: Site, scrapy: Project) -> None:
    """Added, its seed failing at first, its worker killed, paused over restarts, resumed: all pages, once."""
    go_on = news_of(site)
    settings = ("MIN_INTERVAL_MS=0", "HOST_MAX_IN_FLIGHT=2", "LEASE_SECONDS=2", "FRONTIER_RETRY_DELAY_MS=10")
    given = [word for each in (*settings, "ROBOTSTXT_OBEY=False") for word in ("--set", each)]
    assert scrapy("add", "news", f"{site.url}/", "--deny", "/denied/", *given).returncode == 0
    waiting = status(scrapy, "news")
    assert (waiting["status"], waiting["queued"], site.requests) == ("queued", 0, [])
    assert waiting["retry_at"] is not None

    killed = scrapy.start("run", "news")
    assert poll(lambda: len(site.requests) >= 5)
    killed.kill()
    killed.communicate(timeout=60)
    left = status(scrapy, "news")
    assert left["status"] == "started"
    assert left["queued"] + left["started_targets"] == 1 + LEAVES  # nobody has to guess what is to do

    before = len(site.requests)
    next_one = scrapy.start("run", "news", settings={"LEAVE_WHEN_PAUSED": True})
    assert poll(lambda: len(site.requests) >= before + 3)
    assert status(scrapy, "news")["status"] == "started"
    assert poll(lambda: "WORKER_LOST" in scrapy("notes", "news").stdout)
    assert scrapy("pause", "news").returncode == 0
    go_on.set()
    _, err = next_one.communicate(timeout=60)
    assert next_one.returncode == 11, err

    before = len(site.requests)
    resting = status(scrapy, "news")
    assert (resting["status"], resting["leased"], resting["workers"]) == ("paused", 0, [])
    assert resting["queued"] > 0
    assert scrapy("run").returncode == 0  # there is nothing to do for a machine that comes up
    assert scrapy("run", "news").returncode == 4
    assert len(site.requests) == before
    assert status(scrapy, "news") == resting

    assert scrapy("resume", "news").returncode == 0
    done = scrapy("run")
    assert done.returncode == 0, done.stderr
    end = status(scrapy, "news")
    assert (end["status"], end["stop_reason"], end["run"]) == ("sealed", "done", 1)
    assert end["counts"]["fetch_status"] == {"done": 1 + LEAVES, "not_modified": 0, "empty": 0, "failed": 0}
    assert set(site.hits) == {"/", *(f"/{n}" for n in range(LEAVES))}
    twice = [path for path, times in site.hits.items() if len(times) > 1]
    assert "/" in twice
    assert len(twice) <= 1 + 2  # the seed, and what the killed one had in flight
    notes = [note["namespace"] for note in scrapy("notes", "news", "--json").json]
    assert sorted(notes) == ["PAUSED", "RESUMED", "WORKER_LOST"]


class OneHost(FleetSite):
    """One host, every page of which leads to the same ones; some answers take longer than its interval."""

    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop, hosts=1, pages=0, fastest=0, slowest=0.5, seed=1)

    def reply(self, served: Served) -> bytes:
        return message(b"200 OK", linking(*(f"/{n}" for n in range(6))).encode())


def test_two_crawls_of_a_site_share_its_pace_and_nothing_else(
    server_thread: LoopThread, scrapy: Project
) -> None:
    """Each has all of its own pages, whatever becomes of the others; the site is asked as if by one."""
    with OneHost(server_thread) as site:
        settings = {"MIN_INTERVAL_MS": 200, "ROBOTSTXT_OBEY": False, "LEASE_SECONDS": 30}
        command = ("crawl", "site", "-a", f"seeds={site.url(0)}")
        one = scrapy.start(*command, settings={**settings, "CRAWL_NAME": "one"})
        two = scrapy.start(*command, "-a", "deny=/5", settings={**settings, "CRAWL_NAME": "two"})
        three = scrapy.start(*command, settings={**settings, "CRAWL_NAME": "three", "MAX_TARGET": 1})
        for worker in (one, two, three):
            _, err = worker.communicate(timeout=90)
            assert worker.returncode == 0, err
    for name, pages in (("one", 6), ("two", 5), ("three", 1)):
        end = status(scrapy, name)
        assert (end["status"], end["counts"]["fetch_status"]["done"]) == ("sealed", pages)
    host = next(iter(site.hosts.values()))
    assert Counter(served.path for served in host.requests) == {
        "/0": 3, **{f"/{n}": 2 for n in range(1, 5)}, "/5": 1,
    }  # fmt: skip
    assert host.most_open == 1
    assert min(gap for _, _, gap in pairs(host)) >= 0.2 - SLACK_MS / 1000


def test_a_cancelled_crawl_asks_for_nothing_more(site: Site, scrapy: Project) -> None:
    """In mid-page, with two workers: both end by themselves, and what is stored stays."""
    site.add("/0", linking(*(f"/{n}" for n in range(1000))))  # more than anybody waits for
    site.add("/*", linking(), delay=0.2)
    settings = {"CRAWL_NAME": "ended", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "ROBOTSTXT_OBEY": False}
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")
    workers = [scrapy.start(*command, settings={**settings, "WORKER_ID": name}) for name in ("a", "b")]
    assert poll(lambda: len(status(scrapy, "ended")["workers"]) == 2 if len(site.requests) > 2 else 0)
    assert scrapy("cancel", "ended", "--yes").returncode == 0
    asked = len(site.requests)
    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
        assert "Traceback" not in err
    assert len(site.requests) <= asked + 4  # what had been leased may be on its way
    end = status(scrapy, "ended")
    assert (end["status"], end["stop_reason"], end["workers"]) == ("sealed", "cancelled", [])
    stored = {row["url"] for row in scrapy("pages", "ended", "--json", "--limit", "0").json}
    counted = sum(end["counts"]["fetch_status"].values())
    assert 1 <= counted <= len(stored) <= counted + 4  # a page that was under way is stored as well
