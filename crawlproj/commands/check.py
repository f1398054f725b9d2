"""`scrapy check`, as Scrapy has it: in memory, nothing is stored."""

from __future__ import annotations

from scrapy.commands import check

from crawlproj.plain import Plain


class Command(Plain, check.Command):
    """Check the contracts of the spiders."""
