"""What a crawl does not leave behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crawlproj.connections import connect_database, open_redis_sync
from tests.crawl.support import linking, poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

SPIDER = """
from scrapy import Spider

class KeyedSpider(Spider):
    name = "keyed"
"""


def test_secrets_among_the_arguments_are_not_stored(
    site: Site, scrapy: Project, spider_source: Callable[[str], None], database_url: str
) -> None:
    """The run's row says what was asked for, and no password, token or login with it."""
    spider_source(SPIDER)
    site.add("/", linking())
    login = site.url.replace("//", "//me:hunter2@")
    given = {
        "start_url": site.url, "api_key": "hunter2", "login_token": "hunter2",
        "feed": f"{login}/?page=1&token=hunter2", "section": "news",
    }  # fmt: skip
    arguments = [word for name, value in given.items() for word in ("-a", f"{name}={value}")]
    done = scrapy("crawl", "keyed", *arguments, settings={"CRAWL_NAME": "keyed", "MIN_INTERVAL_MS": 0})
    assert done.returncode == 0, done.stderr
    with connect_database(database_url) as sql:
        (config,) = sql.execute("SELECT config FROM crawl").fetchone()
    assert "hunter2" not in json.dumps(config)
    assert config["arguments"]["section"] == "news"
    assert config["arguments"]["feed"] == f"{site.url}/?page=1&token=***"


def test_a_worker_that_finds_its_frontier_lost_says_so(site: Site, scrapy: Project, redis_url: str) -> None:
    """It begins again, as it must, and says with which command it would have gone on."""
    site.add("/", linking("/a"))
    site.add("/a", linking())
    settings = {"CRAWL_NAME": "lost", "MIN_INTERVAL_MS": 0, "CLOSESPIDER_PAGECOUNT": 1}
    command = ("crawl", "site", "-a", f"seeds={site.url}/")
    first = scrapy(*command, settings=settings)
    assert (first.returncode, "has lost" in first.stderr) == (0, False), first.stderr
    with open_redis_sync(redis_url) as redis:
        redis.flushdb()
    second = scrapy(*command, settings=settings)
    assert second.returncode == 0, second.stderr
    assert "`scrapy rebuild lost --force`" in second.stderr


def test_the_frontier_of_a_sealed_run_goes_with_the_next_worker(
    site: Site, scrapy: Project, redis_url: str, database_url: str
) -> None:
    """A worker that died between the seal of its run and the end of its frontier leaves no keys for good."""
    site.add("/", linking("/a"))
    site.add("/a", linking(), delay=5)
    command = ("crawl", "site", "-a", f"seeds={site.url}/")
    worker = scrapy.start(*command, settings={"CRAWL_NAME": "first", "MIN_INTERVAL_MS": 0})
    assert poll(lambda: site.hits["/a"])
    worker.kill()
    worker.wait()
    with connect_database(database_url) as sql, open_redis_sync(redis_url) as redis:
        sql.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL, finished_at = now()")
        assert list(redis.scan_iter("frontier:*"))
        elsewhere = ("crawl", "site", "-a", f"seeds={site.host(2)}/")  # the first host's place is taken
        site.add("/a", linking(), delay=1)
        done = scrapy(*elsewhere, settings={"CRAWL_NAME": "second", "MIN_INTERVAL_MS": 0})
        assert done.returncode == 0, done.stderr
        assert list(redis.scan_iter("frontier:*")) == []
