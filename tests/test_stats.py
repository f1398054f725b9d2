"""The figures are Scrapy's."""

from __future__ import annotations

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector

from crawlproj.stats import StatsCollector


def counted(kind: type[MemoryStatsCollector], **argument: object) -> dict[str, object]:
    """Return the figures after every way to count."""
    stats = kind(Crawler(Spider))
    stats.set_value("set", "x", **argument)
    stats.inc_value("n", **argument)
    stats.inc_value("n", 4, **argument)
    stats.inc_value("from", start=10, **argument)
    stats.max_value("most", 3, **argument)
    stats.max_value("most", 2, **argument)
    stats.min_value("least", 3, **argument)
    stats.min_value("least", 2, **argument)
    assert stats.get_value("n", **argument) == 5
    assert stats.get_value("none", 7) == 7
    return dict(stats.get_stats(**argument))


def test_figures_are_scrapys() -> None:
    """Every way to count comes to the same as in Scrapy's own collector."""
    assert counted(StatsCollector) == counted(MemoryStatsCollector)


def test_a_spider_argument_is_taken() -> None:
    """scrapy-redis still passes it."""
    assert counted(StatsCollector, spider=Spider("x")) == counted(StatsCollector)


def test_figures_outlive_the_spider() -> None:
    """They are kept under the spider's name, as Scrapy keeps them."""
    crawler = Crawler(Spider)
    crawler.spider = Spider("mine")
    stats = StatsCollector(crawler)
    stats.inc_value("n")
    stats.close_spider()
    assert stats.spider_stats == {"mine": {"n": 1}}
