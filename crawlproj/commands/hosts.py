"""`scrapy hosts`: the queues of a crawl, host by host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import BadArgument
from crawlproj.output import Column, Output, milliseconds, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def due(value: int | None) -> str:
    """Return how long a host still waits."""
    return "now" if value == 0 else milliseconds(value)


def _budget(value: int | None) -> str:
    return "none" if value is not None and value < 0 else number(value)


COLUMNS = (
    Column(title="host", key="host", flexible=True),
    Column(title="state", key="state"),
    Column(title="queued", key="queued", show=number, right=True),
    Column(title="flight", key="in_flight", show=number, right=True),
    Column(title="interval", key="min_interval_ms", show=milliseconds, right=True),
    Column(title="set by", key="interval_source", spare=2),
    Column(title="due in", key="next_due_ms", show=due, right=True),
    Column(title="spent", key="spent", show=number, right=True, spare=3),
    Column(title="budget", key="budget", show=_budget, right=True, spare=4),
    Column(title="errors", key="errors", show=number, right=True, spare=1),
)
SORTS = tuple(column.key for column in COLUMNS)


class Command(cli.Command):
    """List the hosts of a crawl."""

    json = True
    usage = "[NAME] [--state S[,S]] [--sort C] [--json]"
    summary = "List the hosts of a crawl: state, queue, pace"
    details = (
        "NAME is a crawl's name or number; without it, the latest crawl.\n"
        "A narrow terminal leaves out budget, spent and what set the interval.\n"
        f"Piped, separated by tabs: {', '.join(SORTS)}."
    )
    examples = (
        "scrapy hosts news",
        "scrapy hosts news --state snoozed,retired",
        "scrapy hosts 18 --sort errors --json",
    )
    arguments = (0, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add filter and order."""
        super().add_options(parser)
        parser.add_argument("--state", metavar="S[,S]", help=f"only these: {', '.join(cli.HOST_STATES)}")
        parser.add_argument(
            "--sort",
            metavar="C",
            default="queued",
            help=f"by which column (default: queued): {', '.join(SORTS)}",
        )

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the hosts."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        states = cli.words("--state", opts.state, cli.HOST_STATES)
        if opts.sort not in SORTS:
            raise BadArgument(f"--sort must be one of {', '.join(SORTS)}, not {opts.sort!r}")
        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0] if args else None)
            found = asyncio.run(cli.frontier_hosts(addresses, crawl.frontier))
            if found is None:
                found = [_gone(row) for row in rows.hosts(connection, crawl.id)]
        shown = [row for row in found if states is None or row["state"] in states]
        if not Output(as_json=opts.json).rows(COLUMNS, _sorted(shown, opts.sort)):
            self.say(f"crawl {crawl.name}, run {crawl.run}, has no {'such ' if states else ''}host")
        return None


def _sorted(rows: Iterable[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return names from a to z and numbers from the largest, null last; equals by host."""
    ordered = sorted(rows, key=lambda row: str(row["host"]))
    if key in {"host", "state", "interval_source"}:
        return sorted(ordered, key=lambda row: (row[key] is None, str(row[key])))
    return sorted(ordered, key=lambda row: (row[key] is None, -(row[key] or 0)))


def _gone(row: dict[str, Any]) -> dict[str, Any]:
    """Return a host of a frontier that is no more, as far as its pages tell."""
    return {
        "host": row["host"],
        "state": "exhausted",
        "queued": 0,
        "in_flight": 0,
        "min_interval_ms": None,
        "interval_source": None,
        "next_due_ms": None,
        "spent": None,
        "budget": None,
        "errors": row["errors"],
    }
