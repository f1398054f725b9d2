"""`scrapy shell`, as Scrapy has it: in memory, nothing is stored."""

from __future__ import annotations

from scrapy.commands import shell

from crawlproj.plain import Plain


class Command(Plain, shell.Command):
    """Open a shell with a response."""
