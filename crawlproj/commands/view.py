"""`scrapy view`, as Scrapy has it: in memory, nothing is stored."""

from __future__ import annotations

from scrapy.commands import view

from crawlproj.plain import Plain


class Command(Plain, view.Command):
    """Open a URL in a browser, as Scrapy sees it."""
