"""A component that is enabled without its companions works, or says in one sentence what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crawlproj import settings as ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site

SPIDER = """
import scrapy

class Lone(scrapy.Spider):
    name = "lone"

    def __init__(self, start, **given):
        super().__init__(**given)
        self.start_urls = [start]

    def parse(self, response):
        yield {"url": response.url}
"""
GROUPS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")
SCRAPYS = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", **{group: {} for group in GROUPS}}


def alone() -> list[Any]:
    """Return each component of ours, with the settings that leave it the only one."""
    found = [pytest.param({**SCRAPYS, "SCHEDULER": ours.SCHEDULER}, id=ours.SCHEDULER)]
    for group in GROUPS:
        for name, order in getattr(ours, group).items():
            if order is not None:
                found.append(pytest.param({**SCRAPYS, group: {name: order}}, id=name))
    return found


@pytest.mark.parametrize("settings", alone())
def test_each_component_alone(
    settings: dict[str, Any], site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """With the companions at Scrapy's defaults: the page is fetched, or one sentence names a component."""
    spider_source(SPIDER)
    url = site.add("/", "<p>Words to read.</p>")

    result = crawl("lone", settings, start=url, timeout=20)

    assert "Traceback" not in result.stderr
    if result.returncode == 0:
        assert result.items == [{"url": url}]
        assert len(result.hits["/"]) == 1
    else:
        (sentence,) = [line for line in result.stderr.splitlines() if line.startswith("scrapy crawl: ")]
        names = [ours.SCHEDULER, *(name for group in GROUPS for name in getattr(ours, group))]
        assert any(name in sentence or name.rpartition(".")[2] in sentence for name in names), sentence
        assert site.requests == []
