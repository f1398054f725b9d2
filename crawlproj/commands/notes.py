"""`scrapy notes`: what a person should know about a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj import cli
from crawlproj.output import Column, Output, moment

if TYPE_CHECKING:
    import argparse

COLUMNS = (
    Column(title="time", key="time", show=moment),
    Column(title="kind", key="namespace"),
    Column(title="note", key="message", flexible=True, fold=True),
)


class Command(cli.Command):
    """List the notes of a crawl."""

    json = True
    usage = "[NAME] [--json]"
    summary = "List the notes of a crawl, the oldest first"
    details = (
        "NAME is a crawl's name or number; without it, the latest crawl. Why a crawl stopped early is the\n"
        "note of kind STOP_EARLY_REASON. Piped: time, kind, note, separated by tabs."
    )
    examples = ("scrapy notes news", "scrapy notes 18 --json")
    arguments = (0, 1)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the notes."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        with self.database() as connection:
            crawl = rows.find_crawl(connection, args[0] if args else None)
            count = Output(as_json=opts.json).rows(COLUMNS, rows.notes(connection, crawl.id))
        if not count:
            self.say(f"crawl {crawl.name}, run {crawl.run}, has no notes")
        return None
