"""Whole crawls with a Redis Cluster of three servers."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crawlproj.connections import open_redis_sync
from crawlproj.testing.servers import fast_folder
from tests.crawl.support import status
from tests.crawl.test_partitions import SETTINGS, star
from tests.frontier.conftest import redis_program
from tests.own_cluster import OwnCluster

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

CLUSTERED = {**SETTINGS, "FRONTIER_PARTITIONS": 6, "ROBOTSTXT_OBEY": True}


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """Three servers."""
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=fast_folder()) as folder:
        cluster = OwnCluster(Path(folder), redis_program())
        yield cluster
        cluster.close()


@pytest.fixture
def redis_url(cluster: OwnCluster) -> str:
    """The address of one of them, which finds the others."""
    cluster.empty()
    return cluster.urls[1]


def test_two_workers_crawl_on_a_cluster(site: Site, scrapy: Project, cluster: OwnCluster) -> None:
    """Every URL is done; the keys are on all servers meanwhile, and gone when the run is sealed."""
    urls = star(site)
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/", "-a", "scope=any")
    begun = scrapy(*arguments, settings={**CLUSTERED, "CLOSESPIDER_PAGECOUNT": 10})
    assert begun.returncode == 0, begun.stderr
    assert all(cluster.keys())
    hosts = scrapy("hosts", "parts", "--json")
    assert len(hosts.stdout.splitlines()) == 13, hosts.stderr
    doctor = scrapy("doctor")
    assert doctor.returncode == 0, doctor.stdout
    workers = [scrapy.start(*arguments, settings={**CLUSTERED, "WORKER_ID": name}) for name in ("one", "two")]
    for worker in workers:
        _, err = worker.communicate(timeout=90)
        assert worker.returncode == 0, err
    pages = Counter(f"http://{hit.host}{hit.path}" for hit in site.requests if hit.path != "/robots.txt")
    assert set(pages) == {f"{site.url}/", *urls}
    # A worker that closes gives back what a slow machine does not let it finish in its time.
    assert max(pages.values()) <= 2, begun.stderr
    found = status(scrapy, "parts")
    assert (found["status"], found["counts"]["fetch_status"]["done"]) == ("sealed", 61)
    left = [key for url in cluster.urls for key in keys_of(url, "frontier:*")]
    assert left == []


def test_start_urls_are_taken_from_a_cluster(
    site: Site, scrapy: Project, spider_source: object, cluster: OwnCluster
) -> None:
    """The key has a slot of its own; each entry is crawled once and leaves it."""
    spider_source(FED)
    for page in range(5):
        site.add(f"/{page}", "<p>words enough to be a page</p>")
    key = "fed:start"
    with open_redis_sync(cluster.urls[cluster.owner_of(key)]) as redis:
        redis.rpush(key, *(f"{site.url}/{page}" for page in range(5)))
        done = scrapy("crawl", "fed", settings=CLUSTERED)
        assert done.returncode == 0, done.stderr
        assert redis.exists(key) == 0
    assert Counter(hit.path for hit in site.requests if hit.path != "/robots.txt") == Counter(
        f"/{page}" for page in range(5)
    )


FED = """
from scrapy_redis.spiders import RedisSpider

class Fed(RedisSpider):
    name = "fed"
    redis_key = "fed:start"
    max_idle_time = 1

    def parse(self, response):
        pass
"""


def keys_of(url: str, pattern: str) -> list[bytes]:
    """Return the keys of one server."""
    with open_redis_sync(url) as redis:
        return list(redis.scan_iter(pattern))
