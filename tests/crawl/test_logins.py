"""Pages behind a password are crawled, and nobody but the site gets to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from aiohttp import web

from tests.crawl.support import linking

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

SECRET = "s3cr3t-w0rd"
BASIC = "Basic bWU6czNjcjN0LXcwcmQ="

SPIDER = """
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Inside(CrawlSpider):
    name = "inside"
    rules = [Rule(LinkExtractor(), callback="found", follow=True)]

    def __init__(self, seeds, **given):
        super().__init__(**given)
        self.seeds = seeds
        self.start_urls = seeds.split()

    def found(self, response):
        yield {"url": response.url}
        if response.url.endswith("/raises"):
            raise ValueError(f"something is wrong with http://me:s3cr3t-w0rd@e.test/")
        if response.url.endswith("/again"):
            url = response.url.replace("://", "://me:s3cr3t-w0rd@")
            yield Request(url, meta={"cannot be kept": object()})
"""


def stored(database_url: str) -> str:
    """Return everything that the database holds, as text."""
    with psycopg.connect(database_url) as database:
        tables = database.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        return "\n".join(
            str(row) for (table,) in tables for row in database.execute(f'SELECT t::text FROM "{table}" AS t')
        )


@pytest.mark.parametrize("spider", ["site", "inside"])
def test_a_password_is_for_the_site_alone(
    spider: str, site: Site, crawl: Crawl, scrapy: Project, spider_source: Callable[[str], None]
) -> None:
    """Seed `user:password@` is sent with every page there, in no log, row or output; one page."""

    def inside(request: web.Request) -> web.Response | str:
        if request.headers.get("Authorization") != BASIC:
            return web.Response(status=401)
        return linking("/a", "/moved", "/away", "/raises", "/fails", "/again", f"{with_login}/a")

    spider_source(SPIDER)
    other = site.host(2)
    with_login = site.url.replace("://", f"://me:{SECRET}@")
    for path in ("/", "/a", "/raises", "/again"):
        site.add(path, inside)
    site.add("/moved", "", status=302, headers={"Location": f"{with_login}/target"})
    site.add("/target", inside)
    site.add("/away", "", status=302, headers={"Location": f"{other}/elsewhere"})
    site.add("/elsewhere", linking(), host="127.0.0.2")
    site.add_raw("/fails", b"no HTTP at all\r\n\r\n")

    result = crawl(spider, {"MAX_ATTEMPTS": 2}, seeds=f"{with_login}/ {site.url}/")

    assert result.returncode == 0, result.stderr
    rows = {row["url"]: row["fetch_status"] or row["reason"] for row in result.pages}
    assert rows == {
        f"{site.url}/": "done",
        f"{site.url}/a": "done",
        f"{site.url}/moved": "redirected",
        f"{site.url}/target": "done",
        f"{site.url}/away": "redirected",
        f"{other}/elsewhere": "done",
        f"{site.url}/raises": "done",
        f"{site.url}/again": "done",
        f"{site.url}/fails": "failed",
    }
    assert len(result.pages) == len(rows)
    sent = {hit.path: hit.headers.get("Authorization") for hit in site.requests}
    assert {path for path, header in sent.items() if header != BASIC} == {"/robots.txt", "/elsewhere"}
    spiders_own = "ValueError"  # what a spider itself says is in the log as it says it
    told = [line for line in result.stderr.splitlines() if spiders_own not in line]
    told += [result.stdout, str(result.items), str(result.status), str(result.pages)]
    told += [
        scrapy("page", f"{site.url}{path}", "--json").stdout for path in ("/", "/moved", "/fails", "/raises")
    ]
    told.append(scrapy("page", f"{with_login}/never").stderr)
    assert "was never fetched" in told[-1]
    told.append(stored(scrapy.env["DATABASE_URL"]))
    assert not [text for text in told if SECRET in text]


def test_a_page_behind_a_password_is_visited_again(site: Site, crawl: Crawl, scrapy: Project) -> None:
    """The login is not kept with the page: the next run's start requests bring it for all of its site."""

    def inside(request: web.Request) -> web.Response | str:
        return linking("/a") if request.headers.get("Authorization") == BASIC else web.Response(status=401)

    for path in ("/", "/a"):
        site.add(path, inside)
    seed = site.url.replace("://", f"://me:{SECRET}@")
    for _ in range(2):
        result = crawl("site", {"CRAWL_NAME": "again"}, seeds=f"{seed}/")
        assert {row["fetch_status"] for row in result.pages} == {"done"}
    assert len(site.hits["/a"]) == 2
    assert SECRET not in stored(scrapy.env["DATABASE_URL"])
