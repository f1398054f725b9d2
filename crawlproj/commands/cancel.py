"""`scrapy cancel`: end a crawl for good."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import Refused, WrongUsage
from crawlproj.output import Output, is_terminal, number

if TYPE_CHECKING:
    import argparse

    import psycopg

    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow

STORED = ("done", "empty", "not_modified")


class Command(cli.Command):
    """Cancel a run."""

    usage = "NAME [--yes]"
    summary = "End a crawl for good: what is queued is forgotten, what is stored stays"
    details = (
        "NAME is a crawl's name or number. Workers that are on it stop; a crawl that repeats does not any\n"
        "more. On a terminal its name has to be typed again. The name's next run begins anew, and knows the\n"
        "pages that are stored.\n"
        "Exit codes: 2 there is no terminal, and no --yes; 3 no such crawl; 4 it is over."
    )
    examples = ("scrapy cancel news", "scrapy cancel news --yes    without asking")
    arguments = (1, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --yes."""
        super().add_options(parser)
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Ask, end the run's row, then remove its frontier."""
        from crawlproj.crawls import control, rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        if not opts.yes and not is_terminal(sys.stdin):
            raise WrongUsage("there is nobody to ask: --yes cancels without asking")
        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0], waiting=True)
            if crawl.status == "sealed":
                raise Refused(f"crawl {crawl.name!r}, run {crawl.run}, is sealed and cannot be cancelled")
            if not opts.yes:
                counts = asyncio.run(_counts(addresses, crawl))
                self._ask(
                    crawl, f"{_queued(counts['queued'])} will be forgotten; {_stored(connection, crawl)}"
                )
            counts = asyncio.run(_counts(addresses, crawl))
            control.cancel(connection, crawl.id, counts=counts, by=cli.who())
            asyncio.run(_drop(addresses, crawl.frontier))
            stay = _stored(connection, crawl)
        Output().line(
            f"cancelled {crawl.name}, run {crawl.run} · {_queued(counts['queued'])} forgotten · {stay}"
        )
        return None

    def _ask(self, crawl: CrawlRow, what: str) -> None:
        """Raise WrongUsage unless the crawl's name is typed."""
        self.say(what)
        print(f"Type {crawl.name} to go on: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != crawl.name:
            raise WrongUsage("that is not its name: nothing is changed")


def _queued(count: int) -> str:
    return f"{number(count)} queued URL{'' if count == 1 else 's'}"


def _stored(connection: psycopg.Connection[Any], crawl: CrawlRow) -> str:
    from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    counts = rows.count_pages(connection, [crawl.id])[crawl.id]["fetch_status"]
    stored = sum(counts[status] for status in STORED)
    return f"{number(stored)} stored page{' stays' if stored == 1 else 's stay'}"


async def _counts(addresses: Addresses, crawl: CrawlRow) -> dict[str, int]:
    """Return the figures that a run is sealed with."""
    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return {"started_targets": 0, "results": 0, "queued": 0}
        figures = await frontier.refresh()
    # Until it has begun, the frontier that it takes over counts for the run before.
    begun = crawl.started_at is not None
    return {
        "started_targets": figures.started if begun else 0,
        "results": figures.results if begun else 0,
        "queued": figures.queued,
        "dead": figures.dead,
    }


async def _drop(addresses: Addresses, frontier_id: str) -> None:
    """Stop a frontier, so that nobody leases of what is left meanwhile, and remove it."""
    async with cli.open_frontier(addresses, frontier_id) as frontier:
        if frontier is not None:
            await frontier.stop("cancelled")
            await frontier.drop()
