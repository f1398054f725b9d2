"""`scrapy pause`: let a crawl rest until a person resumes it."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

from crawlproj import cli
from crawlproj.output import Output, number

if TYPE_CHECKING:
    import argparse

    from crawlproj.connections import Addresses


class Command(cli.Command):
    """Pause a crawl."""

    usage = "NAME"
    summary = "Let a crawl rest until `scrapy resume`: nothing new is fetched, nothing is lost"
    details = (
        "NAME is a crawl's name or number. What is under way finishes; its workers stay and wait, no\n"
        "other can join, and a restart changes nothing. Exit codes: 3 no such crawl; 4 it is over."
    )
    examples = ("scrapy pause news",)
    arguments = (1, 1)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Pause the run's row, then its frontier."""
        from crawlproj.crawls import control, rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0], waiting=True)
            control.pause(connection, crawl.id, by=cli.who())
        leased = asyncio.run(_pause(addresses, crawl.frontier))
        words = ["paused", *([f"{number(leased)} in flight finish"] if leased else [])]
        Output().line(" · ".join([*words, f"resume with: scrapy resume {shlex.quote(crawl.name)}"]))
        return None


async def _pause(addresses: Addresses, frontier_id: str) -> int:
    """Pause a frontier, if it is there; return how much is leased."""
    async with cli.open_frontier(addresses, frontier_id) as frontier:
        if frontier is None:
            return 0
        await frontier.pause()
        return frontier.figures.leased
