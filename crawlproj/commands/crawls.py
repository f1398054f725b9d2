"""`scrapy crawls`: what crawls there are."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import Column, Output, ago, number

if TYPE_CHECKING:
    import argparse

STATUSES = ("queued", "started", "paused", "sealed")
FOR_A_SCREEN = 20


class Command(cli.Command):
    """List the crawls, the latest first."""

    json = True
    usage = "[--status S[,S]] [--limit N] [--json]"
    summary = "List the crawls, the latest first"
    details = "Piped: id, name, run, spider, status, done, failed, workers, started, note, separated by tabs."
    examples = ("scrapy crawls", "scrapy crawls --status started,paused", "scrapy crawls --json")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters."""
        super().add_options(parser)
        parser.add_argument("--status", metavar="S[,S]", help=f"only these: {', '.join(STATUSES)}")
        cli.add_limit(parser, FOR_A_SCREEN)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the list."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        statuses = cli.words("--status", opts.status, STATUSES)
        out = Output(as_json=opts.json)
        limit = cli.limit(opts.limit, FOR_A_SCREEN if out.for_people else None)
        with self.database() as connection:
            found = rows.list_crawls(connection, statuses=statuses, limit=limit)
        if opts.json:
            out.rows((), found)
        elif out.rows(_columns(datetime.now(UTC)), map(_flat, found)) == 0:
            self.say("there is no crawl yet" if not statuses else "there is no such crawl")
        return None


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    fetched = row["counts"]["fetch_status"]
    return row | {"done": fetched["done"], "failed": fetched["failed"]}


def _columns(now: datetime) -> tuple[Column, ...]:
    return (
        Column(title="id", key="id", right=True),
        Column(title="name", key="name", flexible=True),
        Column(title="run", key="run", right=True),
        Column(title="spider", key="spider", spare=1),
        Column(title="status", key="status"),
        Column(title="done", key="done", show=number, right=True),
        Column(title="failed", key="failed", show=number, right=True),
        Column(title="workers", key="workers", right=True, spare=2),
        Column(title="started", key="started_at", show=partial(ago, now=now)),
        Column(title="note", key="note", flexible=True),
    )
