"""`scrapy resume`: let a paused crawl go on."""

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
    from crawlproj.frontier.records import Figures


class Command(cli.Command):
    """Resume a paused crawl."""

    usage = "NAME"
    summary = "Let a paused crawl go on, or one that pauses at its start or its finish"
    details = (
        "NAME is a crawl's name or number. Workers that have stayed go on within a second; without any the\n"
        "crawl waits for `scrapy run`. Exit codes: 3 no such crawl; 4 it is over."
    )
    examples = ("scrapy resume news",)
    arguments = (1, 1)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Resume the run's row, then its frontier."""
        from crawlproj.crawls import control, rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0], waiting=True)
            control.resume(connection, crawl.id, by=cli.who())
            workers = len(rows.workers(connection, crawl.id))
            status, figures = asyncio.run(_resume(addresses, connection, crawl))
        if status in {"paused", "sealed"}:
            Output().line(f"resumed, and {status} again: somebody else has been at it, too")
            return None
        words = ["resumed"]
        if figures is not None:
            words.append(f"{number(figures.queued)} queued")
        if workers:
            words.append(f"{number(workers)} worker{'s' if workers > 1 else ''} on it")
        else:
            words.append(f"no worker is on it, go on with: {_next_command(crawl)}")
        Output().line(" · ".join(words))
        return None


def _next_command(crawl: CrawlRow) -> str:
    from crawlproj.crawls.config import CrawlConfig  # noqa: PLC0415  # keeps `scrapy` quick to start

    name = shlex.quote(crawl.name)
    if CrawlConfig.from_json(crawl.config).redacted:  # it needs what is not stored
        return f"scrapy crawl {crawl.spider} … -s CRAWL_NAME={name}"
    return f"scrapy run {name}"


async def _resume(
    addresses: Addresses, connection: Connection[Any], crawl: CrawlRow
) -> tuple[CrawlStatus | None, Figures | None]:
    """Resume a run's frontier; return the run's status then, and its figures; None without one."""
    from crawlproj.crawls.lifecycle import CrawlStatus  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.crawls.resting import follow_row, status_of  # noqa: PLC0415

    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return None, None
        status = await follow_row(frontier, CrawlStatus.QUEUED, status_of(connection, crawl.id))
        return status, frontier.figures
