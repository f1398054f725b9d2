"""`scrapy pause`: let a crawl rest until a person resumes it."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import Output, number

if TYPE_CHECKING:
    import argparse

    from psycopg import Connection

    from crawlproj.connections import Addresses
    from crawlproj.crawls.lifecycle import CrawlStatus
    from crawlproj.crawls.rows import CrawlRow


class Command(cli.Command):
    """Pause a crawl."""

    usage = "NAME"
    summary = "Let a crawl rest until `scrapy resume`: nothing new is fetched, nothing is lost"
    details = (
        "NAME is a crawl's name or number. What is under way finishes; its workers stay and wait, but for\n"
        "those of a `scrapy run` for all crawls, which leave; no other can join, and a restart changes\n"
        "nothing. Exit codes: 3 no such crawl; 4 it is over."
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
            status, leased = asyncio.run(_pause(addresses, connection, crawl))
        if status is not None and status != "paused":
            Output().line(f"paused, and {status} again: somebody else has been at it, too")
            return None
        words = ["paused", *([f"{number(leased)} in flight finish"] if leased else [])]
        Output().line(" · ".join([*words, f"resume with: scrapy resume {shlex.quote(crawl.name)}"]))
        return None


async def _pause(
    addresses: Addresses, connection: Connection[Any], crawl: CrawlRow
) -> tuple[CrawlStatus | None, int]:
    """Pause a run's frontier; return the run's status then and how much is leased: None, 0 without one."""
    from crawlproj.crawls.lifecycle import CrawlStatus  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.crawls.resting import follow_row, status_of  # noqa: PLC0415

    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return None, 0
        status = await follow_row(frontier, CrawlStatus.PAUSED, status_of(connection, crawl.id))
        return status, frontier.figures.leased
