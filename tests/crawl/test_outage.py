"""Servers that go away or fill up in mid-crawl: the crawl waits, then finishes whole."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crawlproj.connections import open_redis_sync
from crawlproj.servers.embedded import join
from crawlproj.servers.postgres import Postgres
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import home, linking, poll, status
from tests.redis_server import OwnRedis

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

__all__ = ["home"]

AWAY = 10  # seconds
PAGES = 200


@pytest.mark.timeout(150)
def test_both_servers_go_away_in_turn(site: Site, scrapy: Project, valkey_url: str, home: Path) -> None:
    """PostgreSQL stopped for 10 s, Redis killed for 10 s: one warning each, every page once, sealed."""
    for n in range(PAGES):
        links = {(n * 2 + 1) % PAGES, (n * 2 + 2) % PAGES}
        site.add(f"/{n}", linking(*(f"/{each}" for each in links)), delay=0.05)
    redis = OwnRedis(home, valkey_url)
    redis.start()
    join(home, valkey=False)
    postgres = Postgres(home)
    scrapy.env |= {"REDIS_URL": redis.url, "DATABASE_URL": postgres.url}
    assert scrapy("migrate").returncode == 0
    settings = {"CRAWL_NAME": "outage", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 2, "LEASE_SECONDS": 5}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    try:
        assert poll(lambda: len(site.requests) > 10)
        postgres.stop()
        time.sleep(AWAY)
        postgres.begin()
        before = len(site.requests)
        assert poll(lambda: len(site.requests) > before + 10)
        redis.kill()
        time.sleep(AWAY)
        redis.start()
        stderr = process.communicate(timeout=TIMEOUT)[1]
        assert process.returncode == 0, stderr
        state = status(scrapy, "outage")
        assert (state["status"], state["counts"]["fetch_status"]["done"]) == ("sealed", PAGES)
        assert stderr.count("WARNING") <= 4, stderr
    finally:
        process.kill()
        redis.kill()


def test_a_full_redis_is_waited_for(site: Site, scrapy: Project, valkey_url: str, home: Path) -> None:
    """No memory left for 5 s: the crawl waits with one warning, and nothing is lost."""
    for n in range(60):
        site.add(f"/{n}", linking(f"/{(n * 2 + 1) % 60}", f"/{(n * 2 + 2) % 60}"), delay=0.1)
    redis = OwnRedis(home, valkey_url)
    redis.start()
    scrapy.env |= {"REDIS_URL": redis.url}
    settings = {"CRAWL_NAME": "full", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 3}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    try:
        assert poll(lambda: len(site.requests) > 10)
        with open_redis_sync(redis.url) as client:
            client.config_set("maxmemory", 1)
            time.sleep(5)  # longer than a lease
            client.config_set("maxmemory", 0)
        stderr = process.communicate(timeout=TIMEOUT)[1]
        assert process.returncode == 0, stderr
        assert status(scrapy, "full")["counts"]["fetch_status"]["done"] == 60
        assert {len(times) for path, times in site.hits.items() if path != "/robots.txt"} == {1}
        assert stderr.count("refuses writes") == stderr.count("] WARNING:") == 1, stderr
    finally:
        process.kill()
        redis.kill()
