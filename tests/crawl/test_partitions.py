"""Whole crawls over a frontier of several partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.crawl.support import linking, status

if TYPE_CHECKING:
    from redis import Redis

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

SETTINGS = {"CRAWL_NAME": "parts", "MIN_INTERVAL_MS": 0, "ROBOTSTXT_OBEY": False, "FRONTIER_PARTITIONS": 3}


def star(site: Site) -> list[str]:
    """Make twelve hosts, each page of which links to pages of others; return all URLs but for the first."""
    hosts = [site.host(n) for n in range(2, 14)]
    site.add("/", linking(*(f"{host}/0" for host in hosts)))
    for number, host in enumerate(hosts):
        address = host.removeprefix("http://").partition(":")[0]
        for page in range(4):
            other = hosts[(number + page + 1) % len(hosts)]
            site.add(f"/{page}", linking(f"{other}/{page + 1}", f"{host}/0"), host=address, delay=0.1)
        site.add("/4", linking(), host=address)
    return [f"{host}/{page}" for host in hosts for page in range(5)]


def test_two_workers_crawl_all_of_it_once(site: Site, scrapy: Project, valkey_client: Redis) -> None:
    """Every URL is asked for once, the run is sealed, and nothing of it is left in Redis."""
    urls = star(site)
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/", "-a", "scope=any")
    workers = [scrapy.start(*arguments, settings={**SETTINGS, "WORKER_ID": name}) for name in ("one", "two")]
    for worker in workers:
        _, err = worker.communicate(timeout=90)
        assert worker.returncode == 0, err
    assert Counter(f"http://{hit.host}{hit.path}" for hit in site.requests) == Counter(
        [f"{site.url}/", *urls]
    )
    found = status(scrapy, "parts")
    assert found["status"] == "sealed"
    assert found["counts"]["fetch_status"]["done"] == 61
    assert list(valkey_client.scan_iter("frontier:*")) == []


def test_another_number_of_partitions_is_refused(site: Site, scrapy: Project) -> None:
    """In one sentence, with exit code 2; commands find all that is there, and the crawl goes on as it was."""
    urls = star(site)
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/", "-a", "scope=any")
    begun = scrapy(*arguments, settings={**SETTINGS, "CLOSESPIDER_PAGECOUNT": 10})
    assert begun.returncode == 0, begun.stderr
    for number in (1, 4):
        refused = scrapy(*arguments, settings={**SETTINGS, "FRONTIER_PARTITIONS": number})
        assert refused.returncode == 2, refused.stderr
        sentence = f"setting FRONTIER_PARTITIONS must be 3, as this crawl has it, not '{number}'"
        assert sentence in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
    shards = scrapy(*arguments, settings={**SETTINGS, "FRONTIER_SEEN_SHARDS": 7})
    assert shards.returncode == 2
    assert "setting FRONTIER_SEEN_SHARDS must be 16384, as this crawl has it, not '7'" in shards.stderr

    asked = {f"http://{hit.host}{hit.path}" for hit in site.requests}
    hosts = {row["host"] for row in scrapy("hosts", "parts", "--json").json}
    assert hosts >= {url.split("/")[2] for url in urls if url.endswith("/0")}
    left = {row["url"] for row in scrapy("pending", "parts", "--json", "--limit", "0").json}
    assert left
    assert not left & asked
    assert left <= set(urls)

    done = scrapy(*arguments, settings=SETTINGS)
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "parts")["counts"]["fetch_status"]["done"] == 61
