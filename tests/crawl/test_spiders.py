"""Spiders written for plain Scrapy and for scrapy-redis work unmodified, and their pages are kept too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from redis import Redis

from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


def test_plain_spider(site: Site, crawl: Crawl, spider_source: Callable[[str], None]) -> None:
    """Items with their pages, cb_kwargs, a POST, an item in meta, and response.follow."""
    site.add("/", linking())
    site.add("/a", linking())
    site.add("/form", linking())
    spider_source("""
import scrapy

class Thing(scrapy.Item):
    name = scrapy.Field()
    url = scrapy.Field()

class Plain(scrapy.Spider):
    name = "plain"

    async def start(self):
        yield scrapy.Request(self.url + "/")

    def parse(self, response):
        yield response.follow("/a", self.detail, meta={"item": Thing(name="a")}, cb_kwargs={"n": (1, 2)})
        yield scrapy.FormRequest(self.url + "/form", formdata={"q": "x"}, callback=self.form)

    def detail(self, response, n):
        item = response.meta["item"]
        item["url"] = response.url
        item["name"] += repr(n) + str(response.meta["depth"])
        yield item

    async def form(self, response):
        yield {"method": response.request.method, "body": response.request.body.decode()}
""")
    result = crawl("plain", url=site.url)
    assert result.returncode == 0, result.stderr
    assert {row["fetch_status"] for row in result.pages} == {"done"}
    assert sorted(map(str, result.items)) == sorted(
        map(str, [{"name": "a(1, 2)1", "url": site.url + "/a"}, {"method": "POST", "body": "q=x"}])
    )
    assert result.status["results"] == 4  # three pages; one item is its page, the other is one more


def test_crawl_spider(site: Site, crawl: Crawl, spider_source: Callable[[str], None]) -> None:
    """A CrawlSpider's rules and callbacks."""
    site.add("/", linking("/item/1", "/item/2", "/other"))
    for path in ("/item/1", "/item/2", "/other"):
        site.add(path, linking("/item/1", "/"))
    spider_source("""
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Ruled(CrawlSpider):
    name = "ruled"
    rules = (Rule(LinkExtractor(allow="/item/"), callback="parse_item"), Rule(LinkExtractor()))

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url + "/"]

    def parse_item(self, response):
        yield {"url": response.url}
""")
    result = crawl("ruled", url=site.url)
    assert result.returncode == 0, result.stderr
    assert len(result.pages) == 4
    assert sorted(item["url"] for item in result.items) == [f"{site.url}/item/1", f"{site.url}/item/2"]
    assert {len(times) for times in site.hits.values()} == {1}


def test_sitemap_spider(site: Site, crawl: Crawl, spider_source: Callable[[str], None]) -> None:
    """A SitemapSpider's maps are pages like others."""
    site.add("/robots.txt", f"Sitemap: {site.url}/sitemap.xml", headers={"Content-Type": "text/plain"})
    site.add(
        "/sitemap.xml",
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{site.url}/a</loc></url></urlset>',
        headers={"Content-Type": "application/xml"},
    )
    site.add("/a", linking())
    spider_source("""
from scrapy.spiders import SitemapSpider

class Mapped(SitemapSpider):
    name = "mapped"

    def __init__(self, url, **kwargs):
        self.sitemap_urls = [url + "/robots.txt"]
        super().__init__(**kwargs)

    def parse(self, response):
        yield {"url": response.url}
""")
    result = crawl("mapped", url=site.url)
    assert result.returncode == 0, result.stderr
    assert [item["url"] for item in result.items] == [site.url + "/a"]
    assert {row["url"].removeprefix(site.url) for row in result.pages} == {
        "/robots.txt",
        "/sitemap.xml",
        "/a",
    }


def test_redis_spider(
    site: Site, scrapy: Project, spider_source: Callable[[str], None], redis_url: str
) -> None:
    """A RedisSpider's start URLs: bad ones are reported once each and cost the others nothing."""
    site.add("/*", linking())
    spider_source("""
from scrapy_redis.spiders import RedisSpider

class Fed(RedisSpider):
    name = "fed"
    redis_key = "fed:start"
    max_idle_time = 3

    def parse(self, response):
        yield {"url": response.url}
""")
    entries = [
        json.dumps({"url": site.url + "/1"}),
        "not a url",
        json.dumps({"url": 5}),
        b"\xff\xfe",
        "",
        json.dumps({"url": site.url + "/2", "meta": {"k": 1}}),
    ]
    with Redis.from_url(redis_url) as redis:
        redis.rpush("fed:start", *entries)
        process = scrapy.start("crawl", "fed", settings={"CRAWL_NAME": "fed", "MIN_INTERVAL_MS": 0})
        assert poll(lambda: site.hits["/1"] and site.hits["/2"])
        redis.rpush("fed:start", json.dumps({"url": site.url + "/3"}))
        stderr = process.communicate(timeout=TIMEOUT)[1]
        assert redis.llen("fed:start") == 0
    assert process.returncode == 0, stderr
    assert [len(site.hits[f"/{n}"]) for n in (1, 2, 3)] == [1, 1, 1]
    assert stderr.count("ERROR: Entry") == 4
    (status,) = scrapy("status", "fed", "--json").json
    assert (status["status"], status["counts"]["fetch_status"]["done"]) == ("sealed", 3)


def test_a_spider_may_yield_nothing_and_may_close(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """None, from a callback or an errback, holds no page up; CloseSpider is no error of the page."""
    for path in ("/", "/last"):
        site.add(path, linking())
    site.add("/404", "no", status=404)
    site.add_raw("/broken", b"no HTTP")
    spider_source("""
from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider

class Nothing(Spider):
    name = "nothing"

    async def start(self):
        for path in ("/", "/404", "/broken", "/last"):
            yield Request(self.url + path, errback=self.failed)

    def parse(self, response):
        yield None
        if response.url.endswith("/last"):
            raise CloseSpider("enough")
        yield {"url": response.url}

    def failed(self, failure):
        yield None
        yield {"failed": failure.request.url}
        yield None
""")
    result = crawl("nothing", {"MAX_ATTEMPTS": 1}, url=site.url)
    assert result.returncode == 0, result.stderr
    found = {row["url"].removeprefix(site.url): (row["fetch_status"], row["reason"]) for row in result.pages}
    assert found.pop("/broken")[0] == "failed"
    assert found == {"/": ("done", None), "/404": ("failed", "http_404"), "/last": ("done", None)}
    assert len(result.items) == 3
