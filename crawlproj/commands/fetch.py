"""`scrapy fetch`, as Scrapy has it: in memory, nothing is stored."""

from __future__ import annotations

from scrapy.commands import fetch

from crawlproj.plain import Plain


class Command(Plain, fetch.Command):
    """Fetch a URL and print it."""
