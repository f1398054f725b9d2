"""What users of other crawlers have asked for, shown by whole workers."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
import time
from typing import TYPE_CHECKING

from aiohttp import web

from crawlproj.connections import connect_database, open_redis_sync
from crawlproj.crawls import control
from tests.crawl.support import WORDS, figures, linking, poll, status
from tests.redis_server import OwnRedis

if TYPE_CHECKING:
    from pathlib import Path

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

NO_WAITS = {"MIN_INTERVAL_MS": 0, "FRONTIER_RETRY_DELAY_MS": 10, "ROBOTSTXT_OBEY": False}


def pages(site: Site) -> list[str]:
    """Return what was asked for, but for robots.txt, in the order in which it came."""
    return [hit.path for hit in site.requests if hit.path != "/robots.txt"]


def test_three_in_flight_are_three_pending(site: Site, scrapy: Project, redis_url: str) -> None:
    """What a killed worker had in hand comes back, the target of a redirect with it (Apify)."""
    hang = threading.Event()
    hang.set()

    async def answer(request: web.Request) -> web.Response | str:
        if hang.is_set():
            await asyncio.sleep(30)
        if request.path == "/1":
            return web.Response(status=302, headers={"Location": "/target"})
        return linking()

    for n in range(3):
        site.add(f"/{n}", answer)
    site.add("/target", linking())
    seeds = " ".join(f"{site.url}/{n}" for n in range(3))
    settings = {**NO_WAITS, "CRAWL_NAME": "killed", "HOST_MAX_IN_FLIGHT": 3, "LEASE_SECONDS": 2}
    arguments = ("crawl", "site", "-a", f"seeds={seeds}")
    process = scrapy.start(*arguments, settings=settings)
    assert poll(lambda: len(pages(site)) == 3)
    process.kill()
    process.wait()
    with open_redis_sync(redis_url) as redis:
        left = figures(redis)
    assert left["leased"] + left["queued"] == 3
    hang.clear()
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    rows = {row["url"].rpartition("/")[2]: row for row in scrapy("pages", "killed", "--json").json}
    assert {name: row["fetch_status"] for name, row in rows.items()} == {
        "0": "done", "1": None, "2": "done", "target": "done",
    }  # fmt: skip
    assert rows["1"]["reason"] == "redirected"


def test_a_paused_run_stays_paused_when_workers_come_back(
    site: Site, scrapy: Project, database_url: str
) -> None:
    """A worker started on it is refused and fetches nothing; resumed, it goes on (Browsertrix)."""
    site.add("/", linking(*(f"/{n}" for n in range(6))), delay=0.3)
    site.add("/*", linking(), delay=0.3)
    settings = {**NO_WAITS, "CRAWL_NAME": "rest", "LEASE_SECONDS": 1}
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/")
    process = scrapy.start(*arguments, settings=settings)
    assert poll(lambda: len(pages(site)) > 1)
    with connect_database(database_url) as connection:
        (crawl_id,) = connection.execute("select id from crawl").fetchone()
        control.pause(connection, crawl_id)
        process.kill()
        process.wait()
        asked = len(pages(site))
        again = scrapy(*arguments, settings=settings)
        assert again.returncode == 4, again.stderr
        assert "paused" in again.stderr
        assert len(pages(site)) == asked
        control.resume(connection, crawl_id)
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "rest")["counts"]["fetch_status"]["done"] == 7


def test_a_dead_host_ends_with_its_attempts(site: Site, crawl: Crawl) -> None:
    """Its pages fail after their attempts and keep no run open; others are not held up (Heritrix)."""
    site.add("/*", linking())
    dead = [f"http://nowhere.invalid/{n}" for n in range(4)]
    settings = {**NO_WAITS, "MAX_ATTEMPTS": 2, "FRONTIER_RETRY_DELAY_MAX_MS": 200}
    result = crawl("site", settings, seeds=[*dead, f"{site.url}/1"])
    assert result.returncode == 0, result.stderr
    assert result.status["status"] == "sealed"
    assert result.page(f"{site.url}/1")["fetch_status"] == "done"
    for url in dead:
        row = result.page(url)
        assert (row["fetch_status"], row["reason"], row["attempts"]) == ("failed", "dns", 2)


def test_every_path_to_a_host_respects_its_budget(site: Site, crawl: Crawl) -> None:
    """Seeds, links, redirects and retries together are no more than the budget (URLFrontier)."""
    other = site.host(2)
    address = other.partition("//")[2].partition(":")[0]
    site.add("/*", linking(), host=address)
    failures = iter([503])

    def fails_once(_: web.Request) -> web.Response:
        return web.Response(status=next(failures, 200), text=WORDS, content_type="text/html")

    site.add("/seed0", fails_once, host=address)
    site.add("/to*", status=302, headers={"Location": f"{other}/target"})
    site.add("/", linking("/to1", *(f"{other}/link{n}" for n in range(5))))
    seeds = [f"{other}/seed{n}" for n in range(3)] + [f"{site.url}/"]
    result = crawl("site", {**NO_WAITS, "FRONTIER_TOTAL_BUDGET": 3}, seeds=seeds, scope="any")
    assert result.returncode == 0, result.stderr
    assert result.status["status"] == "sealed"
    there = [hit.path for hit in site.requests if hit.host.startswith(f"{address}:")]
    assert len(set(there)) == 3
    assert sorted(there).count("/seed0") == 2
    assert pages(site).count("/to1") == 1


def test_a_worker_never_runs_dry_while_there_is_work(site: Site, scrapy: Project, redis_url: str) -> None:
    """It leases ahead, so that the site is never idle, but no more than it holds (scrapy-redis, Frontera)."""
    concurrent, active, found = 4, 0, []
    chance = random.Random(1)

    async def answer(_: web.Request) -> str:
        nonlocal active
        active += 1
        found.append(active)
        await asyncio.sleep(chance.uniform(0.1, 0.4))
        active -= 1
        return linking()

    site.add("/*", answer)
    seeds = " ".join(f"{site.host(n)}/{m}" for n in range(2, 22) for m in range(4))
    settings = {**NO_WAITS, "CRAWL_NAME": "dry", "MAX_CONCURRENT_COUNT": concurrent}
    process = scrapy.start("crawl", "site", "-a", f"seeds={seeds}", settings=settings)
    leased = 0
    with open_redis_sync(redis_url) as redis:
        assert poll(lambda: found)
        while process.poll() is None and len(found) < 70:
            leased = max(leased, figures(redis)["leased"])
            time.sleep(0.05)
    stderr = process.communicate(timeout=40)[1]
    assert process.returncode == 0, stderr
    assert len(found) == 80
    steady = found[concurrent : -2 * concurrent]
    assert max(steady) == concurrent
    assert sum(number < concurrent - 1 for number in steady) < len(steady) / 4, found
    # In flight, fetched ahead, and being stored.
    assert concurrent < leased <= 3 * concurrent


def test_a_redirect_is_not_followed_if_redirects_are_off(site: Site, crawl: Crawl) -> None:
    """Nothing of it enters the frontier (Frontera)."""
    site.add("/r", status=302, headers={"Location": "/target"})
    site.add("/target", linking())
    result = crawl("site", {**NO_WAITS, "REDIRECT_ENABLED": False}, seeds=f"{site.url}/r")
    assert result.returncode == 0, result.stderr
    assert pages(site) == ["/r"]
    assert [row["url"] for row in result.pages] == [f"{site.url}/r"]
    assert result.status["status"] == "sealed"


def test_a_server_that_forgot_its_last_moments_costs_no_page(
    site: Site, scrapy: Project, valkey_url: str, tmp_path: Path
) -> None:
    """Redis comes back without what it was told last: links that the worker knows as sent enter again."""
    hold = threading.Event()

    async def hub(_: web.Request) -> str:
        await asyncio.to_thread(hold.wait)
        return linking(*(f"/{n}" for n in range(12)))

    site.add("/", hub)
    site.add("/*", linking(), delay=0.2)
    (tmp_path / "data").mkdir()
    redis = OwnRedis(tmp_path / "data", valkey_url)
    redis.start()
    scrapy.env |= {"REDIS_URL": redis.url}
    settings = {**NO_WAITS, "CRAWL_NAME": "forgot", "LEASE_SECONDS": 2}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    try:
        assert poll(lambda: site.hits["/"])
        shutil.copytree(tmp_path / "data" / "appendonlydir", tmp_path / "before")
        hold.set()
        assert poll(lambda: len(pages(site)) > 3)
        redis.kill()
        shutil.rmtree(tmp_path / "data" / "appendonlydir")
        shutil.copytree(tmp_path / "before", tmp_path / "data" / "appendonlydir")
        redis.start()
        stderr = process.communicate(timeout=40)[1]
        assert process.returncode == 0, stderr
        assert status(scrapy, "forgot")["counts"]["fetch_status"]["done"] == 13
    finally:
        process.kill()
        redis.kill()
