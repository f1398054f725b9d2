"""Knobs that are turned while a crawl runs: its worker obeys from its next lease on."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

NO_WAITS = {"MIN_INTERVAL_MS": 0, "FRONTIER_RETRY_DELAY_MS": 10, "ROBOTSTXT_OBEY": False}


def test_knobs_that_come_with_a_lease(site: Site, scrapy: Project) -> None:
    """Interval, attempts, outlinks, embeds: those of the crawl by `tune`, those of one host by `host`."""
    hold = threading.Event()

    async def first(_: web.Request) -> str:
        await asyncio.to_thread(hold.wait)
        return linking("/hub", "/bad", "/x", "/y")

    site.add("/", first)
    site.add("/hub", linking("/a", "/b", "/c"))
    site.add("/x", linking() + "<img src='/i'>")
    site.add("/bad", status=500)
    site.add("/*", linking())
    host = site.url.removeprefix("http://")
    command = ("crawl", "site", "-a", f"seeds={site.url}/", "-a", "embeds=1")
    worker = scrapy.start(*command, settings={**NO_WAITS, "CRAWL_NAME": "live"})
    try:
        assert poll(lambda: site.hits["/"])
        assert scrapy("tune", "live", "max_attempts=4", "max_outlinks=2", "embed_hops=0").returncode == 0
        turned = scrapy("host", "live", host, "--interval", "700", "--set", "max_attempts=2")
        assert turned.returncode == 0, turned.stderr
    finally:
        hold.set()
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    asked = [hit.path for hit in site.requests]
    assert asked.count("/bad") == 2
    # The first page was leased before, and all of its links were taken.
    assert set(asked) == {"/", "/hub", "/bad", "/x", "/y", "/a", "/b", "/i"}
    assert asked.index("/i") > asked.index("/y")
    assert min(later - one for one, later in pairwise(hit.at for hit in site.requests[1:])) > 0.6


def test_room_for_more_at_once(site: Site, scrapy: Project) -> None:
    """A host that may have three in flight from now on has them, though it was busy when that was said."""
    active, together = 0, asyncio.Event()

    async def answer(_: web.Request) -> str:
        nonlocal active
        active += 1
        if active == 3:
            together.set()
        await together.wait()
        return linking()

    site.add("/*", answer)
    seeds = " ".join(f"{site.url}/{n}" for n in range(5))
    settings = {**NO_WAITS, "CRAWL_NAME": "room"}
    worker = scrapy.start("crawl", "site", "-a", f"seeds={seeds}", settings=settings)
    assert poll(lambda: active == 1)
    assert not poll(lambda: active > 1, 1)
    assert scrapy("tune", "room", "in_flight=3").returncode == 0
    _, err = worker.communicate(timeout=40)
    assert worker.returncode == 0, err
    assert status(scrapy, "room")["counts"]["fetch_status"]["done"] == 5


@pytest.mark.parametrize("before", [3, 0, 12])
def test_another_limit_on_targets(site: Site, scrapy: Project, before: int) -> None:
    """Raised, lowered or set where there was none: so many are started, and the run ends for that reason."""
    hold = threading.Event()

    async def first(_: web.Request) -> str:
        await asyncio.to_thread(hold.wait)
        return linking(*(f"/{n}" for n in range(20)))

    site.add("/", first)
    site.add("/*", linking())
    settings = {**NO_WAITS, "CRAWL_NAME": "limit", "MAX_TARGET": before}
    worker = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    try:
        assert poll(lambda: site.hits["/"])
        assert scrapy("tune", "limit", "max_target=8").returncode == 0
    finally:
        hold.set()
    _, err = worker.communicate(timeout=40)
    assert worker.returncode == 0, err
    assert len(site.requests) == 8
    (note,) = scrapy("notes", "limit", "--json").json
    assert note["message"] == "targets count 8 exceeds limit 8"
    assert status(scrapy, "limit")["status"] == "sealed"
