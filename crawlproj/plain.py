"""Scrapy's own tools, without the crawler around them: nothing is leased, stored or counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.settings import default_settings

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

#: What makes a project of this one, and has no place in a tool that looks at one page.
_OURS = (
    "SCHEDULER",
    "DOWNLOADER_MIDDLEWARES_BASE",
    "SPIDER_MIDDLEWARES_BASE",
    "ITEM_PIPELINES_BASE",
    "EXTENSIONS_BASE",
    "CONCURRENT_REQUESTS",
    "CONCURRENT_REQUESTS_PER_DOMAIN",
    "CONCURRENT_ITEMS",
)


class Plain(ScrapyCommand):
    """Put before one of Scrapy's commands, it makes it work in memory, as in any project."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Take our components out before Scrapy builds anything."""
        super().process_options(args, opts)
        assert self.settings is not None
        make_plain(self.settings)


def make_plain(settings: BaseSettings) -> None:
    """Take back what this project changes of Scrapy's machinery; what users have added stays."""
    for name in _OURS:
        settings.set(name, getattr(default_settings, name), "cmdline")
