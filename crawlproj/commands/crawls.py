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
    usage = "[--status S[,S]] [--tag T] [--limit N] [--json]"
    summary = "List the crawls, the latest first"
    details = (
        "fetched: all that has come to an end, done and failed among it, and what was empty or a 304.\n"
        "With --json each status is counted by itself.\n"
        "Separated by tabs when piped: id, name, run, spider, status, done, failed, workers, started, note,\n"
        "fetched, due (of queued ones), label, tags (apart by commas)."
    )
    examples = ("scrapy crawls", "scrapy crawls --status started,paused", "scrapy crawls --tag daily --json")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters."""
        super().add_options(parser)
        parser.add_argument("--status", metavar="S[,S]", help=f"only these: {', '.join(STATUSES)}")
        parser.add_argument("--tag", metavar="T", help="only those with this tag")
        cli.add_limit(parser, FOR_A_SCREEN)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the list."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        statuses = cli.words("--status", opts.status, STATUSES)
        out = Output(as_json=opts.json)
        limit = cli.limit(opts.limit, FOR_A_SCREEN if out.for_people else None)
        with self.database() as connection:
            more = limit and limit + 1  # one more, to know whether there are more
            found = rows.list_crawls(connection, statuses=statuses, tag=opts.tag, limit=more)
        if opts.json:
            out.rows((), found[:limit])
            return None
        shown = out.rows(_columns(out, datetime.now(UTC)), map(_flat, found[:limit]))
        if limit and len(found) > limit and opts.limit is None:
            self.say(f"the latest {limit}; --limit 0 shows all")
        if shown == 0:
            self.say(
                "there is no such crawl" if statuses or opts.tag is not None else "there is no crawl yet"
            )
        return None


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    counts = row["counts"]["fetch_status"]
    due = row["retry_at"] if row["status"] == "queued" else None
    return row | {
        "fetched": sum(counts.values()),
        "done": counts["done"],
        "failed": counts["failed"],
        "due": due,
        "begin": (row["started_at"], due),
        "tags": ",".join(row["tags"]),
        "said": " · ".join(text for text in (row["label"], row["note"]) if text),
    }


def _begin(times: tuple[datetime | None, datetime | None], *, now: datetime) -> str:
    started, due = times
    if due is None:
        return ago(started, now=now)
    return "due" if due <= now else f"due {ago(due, now=now)}"


def _columns(out: Output, now: datetime) -> tuple[Column, ...]:
    # A column for each status would leave no room for names on 80 columns.
    fetched = Column(title="fetched", key="fetched", show=number, right=True)
    started = Column(title="started", key="started_at", show=partial(ago, now=now))
    first: tuple[Column, ...] = ()
    last = tuple(Column(title=key, key=key) for key in ("fetched", "due", "label", "tags"))
    note = Column(title="note", key="note", flexible=True)
    if out.for_people:  # a pipe has what was added later at its end, because others count the fields
        first, last = (fetched,), ()
        started = Column(title="started", key="begin", show=partial(_begin, now=now), yields=1)
        note = Column(
            title="note", key="said", flexible=True
        )  # a label of its own would leave no room for names
    return (
        Column(title="id", key="id", right=True),
        Column(title="name", key="name", flexible=True, whole=True),
        Column(title="run", key="run", right=True),
        Column(title="spider", key="spider", spare=1),
        Column(title="status", key="status"),
        *first,
        Column(title="done", key="done", show=number, right=True, yields=2),
        Column(title="failed", key="failed", show=number, right=True),
        Column(title="workers", key="workers", right=True, spare=2),
        started,
        note,
        *last,
    )
