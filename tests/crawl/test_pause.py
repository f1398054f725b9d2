"""A paused crawl rests with its workers on it, and goes on when a person says so."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from aiohttp import web

from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll, status
from tests.postgres import sql

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

__all__ = ["sql"]

PAGES, HELD = 40, 6


def started(site: Site, scrapy: Project):
    """Start a crawl of a chain of pages, of which one is under way until it may go on."""
    go_on = threading.Event()

    async def held(_: web.Request) -> str:
        await asyncio.to_thread(go_on.wait, TIMEOUT)
        return linking(f"/{HELD + 1}")

    for n in range(PAGES):
        site.add(f"/{n}", held if n == HELD else linking(f"/{n + 1}"))
    settings = {"CRAWL_NAME": "rest", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 3}
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")
    return scrapy.start(*command, settings=settings), command, settings, go_on


async def stop(redis_url: str, reason: str) -> None:
    """Stop the one frontier there is, as a limit does."""
    redis = open_redis(redis_url)
    scripts = Scripts(redis, "test")
    keys = [key async for key in redis.scan_iter("frontier:*:ctl")]
    await Frontier(redis, scripts, keys[0].decode().split(":")[1].strip("{}")).stop(reason)
    await scripts.close()
    await redis.aclose()


def test_a_worker_stays_and_goes_on(site: Site, scrapy: Project, redis_url: str, sql: Connection) -> None:
    """Nothing is fetched in a pause longer than its leases, nor when connections are cut; then it goes on."""
    worker, command, settings, go_on = started(site, scrapy)
    assert poll(lambda: site.hits[f"/{HELD}"])
    assert scrapy("pause", "rest").returncode == 0
    go_on.set()
    assert poll(lambda: status(scrapy, "rest")["leased"] == 0)
    before = len(site.requests)
    joined = scrapy(*command, settings={**settings, "WORKER_ID": "other"})
    assert joined.returncode == 4  # nobody else comes in meanwhile
    with open_redis_sync(redis_url) as redis:
        redis.client_kill_filter(_type="normal", skipme=True)
    sql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    resting = status(scrapy, "rest")
    assert poll(
        lambda: status(scrapy, "rest")["workers"][0]["expires_at"] > resting["workers"][0]["expires_at"]
    )
    assert status(scrapy, "rest")["status"] == "paused"
    assert worker.poll() is None
    assert len(site.requests) == before
    resumed = scrapy("resume", "rest")
    assert "1 worker on it" in resumed.stdout
    _, err = worker.communicate(timeout=40)
    assert worker.returncode == 0, err
    end = status(scrapy, "rest")
    assert (end["status"], end["counts"]["fetch_status"]["done"]) == ("sealed", PAGES)
    assert all(len(site.hits[f"/{n}"]) == 1 for n in range(PAGES))


def test_a_paused_crawl_with_nothing_left_is_not_over(site: Site, scrapy: Project, redis_url: str) -> None:
    """Not even when a limit has stopped it: it is sealed once it is resumed."""
    worker, _, _, go_on = started(site, scrapy)
    assert poll(lambda: site.hits[f"/{HELD}"])
    scrapy("pause", "rest")
    go_on.set()
    assert poll(lambda: status(scrapy, "rest")["leased"] == 0)
    asyncio.run(stop(redis_url, "ExceedResultsCountLimit"))
    stays = not poll(lambda: worker.poll() is not None, 3)
    assert stays
    assert status(scrapy, "rest")["status"] == "paused"
    scrapy("resume", "rest")
    _, err = worker.communicate(timeout=40)
    assert worker.returncode == 0, err
    assert status(scrapy, "rest")["stop_reason"] == "ExceedResultsCountLimit"


def test_pause_at_start_and_at_finish(site: Site, scrapy: Project) -> None:
    """Both wait for a person, and a restart does not take the place of one."""
    site.add("/0", linking("/1"))
    site.add("/1", linking())
    settings = {
        "CRAWL_NAME": "careful", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 3,
        "FRONTIER_PAUSE_AT_START": 1, "FRONTIER_PAUSE_AT_FINISH": 1,
    }  # fmt: skip
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")

    def working() -> list[str]:
        rows = [row for row in scrapy("crawls", "--json").json if row["name"] == "careful"]
        return [each["worker"] for row in rows if row["workers"] for each in workers()]

    def workers() -> list[dict[str, str]]:
        return list(status(scrapy, "careful")["workers"])

    first = scrapy.start(*command, settings=settings)
    assert poll(working)
    first.kill()
    first.wait()
    assert poll(lambda: not workers())
    worker = scrapy.start(*command, settings=settings)
    assert poll(working)
    assert not poll(lambda: site.requests, 2)
    assert scrapy("resume", "careful").returncode == 0
    assert poll(lambda: status(scrapy, "careful")["results"] == 2)
    assert not poll(lambda: worker.poll() is not None, 2)
    assert status(scrapy, "careful")["status"] == "started"
    assert scrapy("resume", "careful").returncode == 0
    _, err = worker.communicate(timeout=40)
    assert worker.returncode == 0, err
    assert status(scrapy, "careful")["status"] == "sealed"
