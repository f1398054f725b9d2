"""Scrapy's statistics, counted without looking at who counts."""

from __future__ import annotations

from scrapy.statscollectors import MemoryStatsCollector


class StatsCollector(MemoryStatsCollector):
    """Keeps the figures in memory, as Scrapy's default does, for a tenth of the work.

    That one looks at every use of an attribute whether it has to warn of a `spider` argument; with
    fifteen counts a page this is a hundredth of a crawl. Here the argument is taken without a word.
    """

    __getattribute__ = object.__getattribute__
