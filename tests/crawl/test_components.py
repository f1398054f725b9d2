"""Which components can be left out, which cannot, and what a spider may add of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import default_settings

from crawlproj import settings as ours
from crawlproj.wiring import SPINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site

SPIDER = """
import scrapy

class Mark:
    def process_item(self, item):
        item["marked"] = True
        return item

    async def process_spider_output(self, response, result):
        async for each in result:
            yield {**each, "through": True} if isinstance(each, dict) else each

    def process_request(self, request):
        request.headers["X-Mark"] = "yes"

class Extension:
    pass

class Lone(scrapy.Spider):
    name = "lone"

    def __init__(self, start, **given):
        super().__init__(**given)
        self.start_urls = [start]

    def parse(self, response):
        yield {"url": response.url}

class Own(Lone):
    name = "own"
    custom_settings = {
        "ITEM_PIPELINES": {Mark: 300},
        "DOWNLOADER_MIDDLEWARES": {Mark: 500},
        "SPIDER_MIDDLEWARES": {Mark: 500},
        "EXTENSIONS": {Extension: 500},
    }
"""
GROUPS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")
COMPONENTS = {
    name: group
    for group in GROUPS
    for name, order in getattr(ours, f"{group}_BASE").items()
    if order is not None and name not in getattr(default_settings, f"{group}_BASE")
}
REQUIRED = {name for names in SPINE.values() for name in names}


def without(*names: str) -> dict[str, Any]:
    """Return the settings that take these components out."""
    return {group: {name: None for name in names if COMPONENTS[name] == group} for group in GROUPS}


@pytest.mark.parametrize("name", sorted(set(COMPONENTS) - REQUIRED))
def test_a_component_left_out(
    name: str, site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """A crawl does without any one of the components that are not required."""
    spider_source(SPIDER)
    url = site.add("/", "<p>Words to read.</p>")

    result = crawl("lone", without(name), start=url)

    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert result.items == [{"url": url}]
    assert result.page("/")["http_status"] == 200
    assert len(result.hits["/"]) == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, "SCHEDULER must be"),
        (without(*COMPONENTS), "SPIDER_MIDDLEWARES lacks middlewares.page.PageMiddleware"),
    ],
)
def test_a_crawl_without_what_it_needs(
    settings: dict[str, Any], sentence: str, site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """What cannot work is refused in one sentence, before a site is asked for anything."""
    spider_source(SPIDER)
    result = crawl("lone", settings, start=site.add("/", "words"))
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if "INFO" not in line]
    assert line.startswith(f"scrapy crawl: {sentence}")
    assert site.requests == []


def test_a_spider_may_have_components_of_its_own(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """A spider's `custom_settings` add to the project's components and take none of them away."""
    spider_source(SPIDER)
    url = site.add("/", "<p>Words to read.</p>")

    result = crawl("own", start=url)

    assert result.returncode == 0, result.stderr
    assert result.items == [{"url": url, "through": True, "marked": True}]
    assert result.page("/")["fetch_status"] == "done"
    assert site.requests[-1].headers["X-Mark"] == "yes"


@pytest.mark.timeout(60)
def test_a_pipeline_may_stand_at_the_front_and_drop_all(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """A spider's pipeline of a low order never sees a page object; one that drops all loses no page."""
    spider_source("""
import scrapy
from scrapy.exceptions import DropItem

class DropAll:
    def process_item(self, item):
        raise DropItem("no")

class Dropping(scrapy.Spider):
    name = "dropping"
    custom_settings = {"ITEM_PIPELINES": {DropAll: 0}}

    def __init__(self, start, **given):
        super().__init__(**given)
        self.start_urls = [start]

    def parse(self, response):
        yield {"url": response.url}
""")

    result = crawl("dropping", {"CLOSESPIDER_TIMEOUT": 20}, start=site.add("/", "<p>Words to read.</p>"))

    assert result.returncode == 0, result.stderr
    assert result.items == []
    assert result.page("/")["fetch_status"] == "done"
    assert result.status["status"] == "sealed"


def test_a_callback_that_yields_odd_things(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """What is no item costs neither its page nor the links beside it, as in plain Scrapy."""
    spider_source("""
import scrapy

class Odd(scrapy.Spider):
    name = "odd"

    def __init__(self, start, **given):
        super().__init__(**given)
        self.start_urls = [start]

    def parse(self, response):
        yield None
        yield "a string"
        yield 5
        yield response.follow("/next", self.end)

    def end(self, response):
        return "end"
""")
    site.add("/next", "<p>Words to read.</p>")

    result = crawl("odd", start=site.add("/", "<p>Words to read.</p>"))

    assert result.returncode == 0, result.stderr
    assert {row["fetch_status"] for row in result.pages} == {"done"}
    assert len(result.pages) == 2
    assert result.status["status"] == "sealed"
