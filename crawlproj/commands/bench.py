"""`scrapy bench`, as Scrapy has it: Scrapy alone, without the frontier."""

from __future__ import annotations

from scrapy.commands import bench

from crawlproj.plain import Plain


class Command(Plain, bench.Command):
    """Measure Scrapy on this machine."""
