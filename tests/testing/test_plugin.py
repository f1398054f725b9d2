"""The fixtures for people who write spiders do what they promise."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import aiohttp
import pytest

from crawlproj.testing.plugin import NetworkRefused
from crawlproj.testing.project import Project, Stuck

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.demo import DemoSite
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site

PLAIN_SPIDER = """
import scrapy

class Plain(scrapy.Spider):
    name = "plain"

    def __init__(self, start, **given):
        super().__init__(**given)
        self.start_urls = [start]

    def parse(self, response):
        yield {"title": response.css("h1::text").get(), "url": response.url}
        yield from response.follow_all(css="a")
"""


@pytest.mark.parametrize("address", ["198.51.100.1", "10.0.0.1", "2001:db8::1"])
def test_another_machine_is_not_connected_to(address: str) -> None:
    """A connection that would leave this machine is refused before anything is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as client:
        with pytest.raises(NetworkRefused, match=address):
            client.connect((address, 80))
        with pytest.raises(NetworkRefused):
            client.connect_ex((address, 80))


def test_another_name_is_not_looked_up() -> None:
    """Names are not asked of any server; localhost and addresses need none."""
    with pytest.raises(socket.gaierror, match="is not looked up"):
        socket.getaddrinfo("crawlproj.invalid", 80)
    assert socket.getaddrinfo("127.0.0.2", 80)
    assert socket.getaddrinfo("localhost", 80)


def test_loopback_is_connected_to(site: Site) -> None:
    """What stays on this machine is not in the way."""
    with socket.create_connection(("127.0.0.1", site.port)) as client:
        client.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 404")
    assert len(site.hits["/x"]) == 1


def test_a_command_runs_in_the_project(scrapy: Project, redis_url: str) -> None:
    """`scrapy` runs in the project's folder with the test's servers and the settings given."""
    found = scrapy("settings", "--get", "REDIS_URL")
    assert (found.returncode, found.stdout.strip()) == (0, redis_url), found.stderr
    found = scrapy("settings", "--get", "MIN_INTERVAL_MS", settings={"MIN_INTERVAL_MS": 7})
    assert found.stdout.strip() == "7"


def test_a_command_that_does_not_end_is_killed(scrapy: Project, spider_source: Callable[[str], None]) -> None:
    """After its timeout a command is ended, and the error shows its output."""
    spider_source("import time\nprint('here', flush=True)\ntime.sleep(600)")
    with pytest.raises(Stuck, match="here"):
        scrapy("list", timeout=15)  # a busy machine needs some of it to come as far as the spider


def test_spiders_can_be_given_as_text(scrapy: Project, spider_source: Callable[[str], None]) -> None:
    """A spider that no file of the project holds is found beside the project's own."""
    spider_source(PLAIN_SPIDER)
    spider_source(PLAIN_SPIDER.replace('"plain"', '"other"'))
    names = scrapy("list").stdout.split()
    assert {"plain", "other"} <= set(names)


def test_a_crawl_returns_items_pages_status_and_hits(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """A plain spider runs unmodified, and what it found can be asserted on."""
    spider_source(PLAIN_SPIDER)
    site.add("/", '<h1>Front</h1><p>Words to read.</p><a href="/one">One</a>')
    site.add("/one", "<h1>One</h1><p>More words to read.</p>")

    result = crawl("plain", start=site.url + "/")

    assert result.returncode == 0, result.stderr
    assert [item["title"] for item in result.items] == ["Front", "One"]
    assert {row["url"]: row["fetch_status"] for row in result.pages} == {
        site.url + "/": "done",
        site.url + "/one": "done",
    }
    assert result.page("/one")["http_status"] == 200
    assert result.status["status"] == "sealed"
    assert result.status["run"] == 1
    assert result.notes == []
    assert len(result.hits["/one"]) == 1


async def test_the_built_in_site_is_served(demo_site: DemoSite) -> None:
    """`demo_site` answers, and counts what it is asked for by this test alone."""
    async with aiohttp.ClientSession() as client, client.get(demo_site.url + "/about") as answer:
        assert "About the Gazette" in await answer.text()
    assert demo_site.hits == {"/about": 1}
