"""Which URLs are crawled, once each and as they were written."""

from __future__ import annotations

import random
import string
from itertools import pairwise
from typing import TYPE_CHECKING

from redis import Redis

from tests.crawl.support import WORDS, linking, poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

NO_PAGES = (
    "file:///etc/hostname",
    "file://e.test/etc/hostname",
    "ftp://e.test/x",
    "data:text/html,hi",
    "view-source:http://e.test/",
    "chrome://version",
)


def test_what_a_server_could_tell_apart_is_fetched_as_written(site: Site, crawl: Crawl) -> None:
    """Escapes of reserved characters and empty values make pages of their own."""
    paths = ("/x%26y", "/x&y", "/x%23y", "/x%25", "/l?a", "/l?a=", "/q?b=2&a=1")
    for path in paths:
        site.add(path, f"{WORDS}<p>This is {path.encode().hex()}.</p>")
    site.add("/", linking(*paths))

    result = crawl("site", seeds=f"{site.url}/")

    assert result.returncode == 0, result.stderr
    asked = [hit.path for hit in site.requests if hit.path not in {"/", "/robots.txt"}]
    assert sorted(asked) == sorted(paths)
    assert {row["fetch_status"] for row in result.pages} == {"done"}
    assert len({row["object_id"] for row in result.pages}) == len(paths) + 1


def test_spellings_of_one_host_share_a_queue(site: Site, crawl: Crawl, scrapy: Project) -> None:
    """However the host is written, one queue and so one interval."""
    site.add("/*", linking())
    port = site.port
    seeds = [f"http://127.0.0.1:{port}?x=1", f"http://0x7f.1:{port}/2", f"HTTP://127.1.:{port}/3#f"]

    result = crawl("site", {"MIN_INTERVAL_MS": 300}, seeds=seeds)

    assert result.returncode == 0, result.stderr
    assert len(result.pages) == 3
    hosts = {row["host"] for row in scrapy("hosts", "site", "--json").json}
    assert hosts == {f"127.0.0.1:{port}"}
    arrivals = sorted(hit.at for hit in site.requests)
    assert min(after - before for before, after in pairwise(arrivals)) > 0.28


def test_only_the_web_is_crawled(
    site: Site, crawl: Crawl, scrapy: Project, redis_url: str, spider_source: Callable[[str], None]
) -> None:
    """Other schemes, as start URLs and as links, are refused; no queue is without a host."""
    site.add("/", linking(*NO_PAGES, "/a", "javascript:alert(1)", "mailto:a@e.test"))
    site.add("/a", linking())
    spider_source(f"""
from scrapy import Request, Spider

class Careless(Spider):
    name = "careless"

    async def start(self):
        for url in [*{NO_PAGES!r}, self.url + "/"]:
            yield Request(url, dont_filter=True)

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            if not href.startswith(("javascript:", "mailto:")):
                yield response.follow(href)
""")
    for spider, arguments, refused in (
        ("careless", {"url": site.url}, 2 * len(NO_PAGES)),
        ("site", {"seeds": f"{site.url}/"}, 0),
    ):
        result = crawl(spider, **arguments)
        assert result.returncode == 0, result.stderr
        assert {row["url"] for row in result.pages} == {f"{site.url}/", f"{site.url}/a"}
        assert result.stderr.count("is no http or https URL") == refused
        assert [row["host"] for row in scrapy("hosts", spider, "--json").json] == [site.url[7:]]
        done = scrapy("crawl", spider, "-a", f"seeds={NO_PAGES[0]}", "-a", f"url={site.url}")
        assert done.returncode == (2 if spider == "site" else 0)
    with Redis.from_url(redis_url, decode_responses=True) as redis:
        keys = list(redis.scan_iter("*"))
    assert not [key for key in keys if "None" in key or "e.test" in key or key.endswith((":", ":{}"))]


def test_a_url_too_long_for_an_index_is_a_page(site: Site, crawl: Crawl) -> None:
    """A query of 9,000 random characters has its row, whatever the server thinks of it."""
    query = "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=9_000))
    site.add("/long", linking())
    site.add("/", linking(f"/long?{query}"))
    result = crawl("site", seeds=f"{site.url}/")
    assert result.returncode == 0, result.stderr
    assert result.page(f"/long?{query}")["reason"] == "http_400"  # a line too long for this one
    assert result.status["status"] == "sealed"


def test_a_host_that_no_structure_leads_to_is_found(site: Site, scrapy: Project, redis_url: str) -> None:
    """A queue whose host has fallen out of the index keeps the run open and is crawled."""
    site.add("/slow", linking(), delay=1)
    site.add("/quick*", linking())
    settings = {"CRAWL_NAME": "stranded", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 2}
    seeds = [f"{site.url}/slow", *(f"{site.host(n)}/quick{n}" for n in (2, 3, 4))]
    arguments = ("crawl", "site", "-a", f"seeds={' '.join(seeds)}")
    process = scrapy.start(*arguments, settings={**settings, "MAX_CONCURRENT_COUNT": 1})
    assert poll(lambda: site.hits["/slow"])
    process.kill()
    process.wait()
    with Redis.from_url(redis_url, decode_responses=True) as redis:
        lost = 0
        for kind in ("ready", "inactive", "snoozed"):
            for key in redis.scan_iter(f"frontier:*:{kind}"):
                lost += redis.delete(key)
    assert lost
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    assert "in no queue and are back" in done.stderr
    assert all(site.hits[f"/quick{n}"] for n in (2, 3, 4))
