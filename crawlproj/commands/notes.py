"""`scrapy notes`: what a person should know about a crawl."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import Column, Output, moment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from psycopg import Connection

COLUMNS = (
    Column(title="time", key="time", show=moment),
    Column(title="kind", key="namespace"),
    Column(title="note", key="message", flexible=True, fold=True),
)
FOLLOW_SECONDS = 1.0
LATE = 1_000  # notes that may have become visible after one with a higher id


class Command(cli.Command):
    """List the notes of a crawl."""

    json = True
    usage = "[NAME] [--follow] [--json]"
    summary = "List the notes of a crawl, the oldest first"
    details = (
        "NAME is a crawl's name or number; without it, the latest crawl. Why a crawl stopped early is the\n"
        "note of kind STOP_EARLY_REASON. Piped: time, kind, note, separated by tabs."
    )
    examples = ("scrapy notes news", "scrapy notes news --follow", "scrapy notes 18 --json")
    arguments = (0, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --follow."""
        super().add_options(parser)
        parser.add_argument(
            "--follow", action="store_true", help="go on with new ones, until it is sealed or Ctrl-C"
        )

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the notes."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        out = Output(as_json=opts.json)
        with self.database() as connection:
            crawl = rows.find_crawl(connection, args[0] if args else None)
            if opts.follow:
                count = _follow(out, connection, crawl.id)
            else:
                count = out.rows(COLUMNS, [_told(row) for row in rows.notes(connection, crawl.id)])
        if not count:
            self.say(f"crawl {crawl.name}, run {crawl.run}, has no notes")
        return None


def _follow(out: Output, connection: Connection[Any], crawl_id: int) -> int:
    """Print the notes of a run as they come, until it is sealed or Ctrl-C; return how many there were."""
    count = 0
    with contextlib.suppress(KeyboardInterrupt):
        for note in _following(connection, crawl_id):
            _print(out, note)
            count += 1
    return count


def _following(connection: Connection[Any], crawl_id: int) -> Iterator[dict[str, Any]]:
    """Yield the notes of a run as they come, until it is sealed."""
    from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    seen: set[int] = set()
    last = 0
    while True:
        # Asked before the notes: what is written with the seal is still told.
        status = rows.crawl(connection, crawl_id).status
        for row in rows.notes(connection, crawl_id, after=max(0, last - LATE)):
            if row["id"] not in seen:
                seen.add(row["id"])
                yield _told(row)
        last = max(seen, default=0)
        seen = {each for each in seen if each > last - LATE}
        if status == "sealed":
            return
        time.sleep(FOLLOW_SECONDS)


def _print(out: Output, note: dict[str, Any]) -> None:
    if out.for_people:  # a table would have its head again for every note
        out.line(f"{moment(note['time'])}  {note['namespace']}  {note['message']}")
    else:
        out.rows(COLUMNS, [note])
    out.flush()


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("time", "namespace", "message", "fields")}
