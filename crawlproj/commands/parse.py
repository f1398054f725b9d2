"""`scrapy parse`, as Scrapy has it: in memory, nothing is stored."""

from __future__ import annotations

from scrapy.commands import parse

from crawlproj.plain import Plain


class Command(Plain, parse.Command):
    """Run a spider's callback on a URL."""
