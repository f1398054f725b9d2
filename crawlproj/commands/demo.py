"""`scrapy demo`: crawl the built-in site, to see everything at work."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from scrapy.commands import BaseRunSpiderCommand

from crawlproj import cli

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

NAME = "demo"
PORT = 7180  # always the same, so that the second run finds the pages of the first


class Command(cli.Strict, BaseRunSpiderCommand):
    """Serve the built-in site on loopback and crawl it."""

    requires_crawler_process = False  # as in `crawl`: nothing starts before the checks

    usage = "[-s NAME=VALUE …]"
    summary = "Crawl the built-in site: every kind of page, in seconds, without the net"
    details = "A crawl like any other, named `demo`; run it twice to see pages that were not modified."
    examples = ("scrapy demo", "scrapy demo -s MAX_TARGET=10    with a limit")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Serve and crawl."""
        from crawlproj.demo import SETTINGS  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.launch import crawl  # noqa: PLC0415

        settings = self.given_settings
        for name, value in {**SETTINGS, "CRAWL_NAME": NAME}.items():
            settings.set(name, value, "project")
        with served() as url:
            return crawl(settings, "site", {"seeds": f"{url}/", **opts.spargs})


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the built-in site from a thread of its own, and yield its address."""
    from crawlproj.demo import DemoSite, LoopThread  # noqa: PLC0415  # keeps `scrapy` quick to start

    async def start() -> DemoSite:
        try:
            return await DemoSite(port=PORT).__aenter__()
        except OSError:  # the port is taken; every page is a new one then
            return await DemoSite().__aenter__()

    with LoopThread() as thread:
        site = thread.run(start())
        try:
            yield site.url
        finally:
            thread.run(site.__aexit__())
