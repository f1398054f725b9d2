"""`scrapy diff`: what has changed between two runs of a crawl."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import BadArgument, Refused
from crawlproj.output import Column, Output, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from psycopg import Connection

    from crawlproj.crawls.rows import CrawlRow

FOR_A_SCREEN = 100
LARGEST_RUN = 2**31 - 1

UNCHANGED = "unchanged"
#: In this order; what becomes of a page.
CHANGES = ("new", "gone", "changed", "emptied", UNCHANGED)
#: What --json prints, in this order.
FIELDS = (
    "change",
    "url",
    "status_before",
    "status_after",
    "http_status",
    "object_before",
    "object_after",
    "text_before",
    "text_after",
)
COLUMNS = (
    Column(title="change", key="change"),
    Column(title="url", key="url", flexible=True, keep_end=True),
    Column(title="before", key="status_before", spare=2),
    Column(title="after", key="status_after"),
    Column(title="http", key="http_status", right=True, spare=3),
    Column(title="text before", key="text_before", right=True, spare=1),
    Column(title="text after", key="text_after", right=True, spare=1),
)


class Command(cli.Command):
    """Compare two runs of a crawl."""

    json = True
    usage = "NAME RUN RUN [--count] [--limit N] [--json]"
    summary = "List what is new, gone, changed or emptied between two runs of a crawl"
    details = (
        "RUN is a run's number within the name: 1, 2, … The state as of the first one is compared with that\n"
        "as of the second one, whatever each of them has visited. new: there now, and was not; gone: 404,\n"
        "410 or redirected now; changed: another content, an empty page that is filled among it; emptied:\n"
        "it had text and has none. A page that only failed otherwise is taken for what it was before. How\n"
        "many there are, unchanged ones among them, is said on stderr; --count prints that alone.\n"
        f"Piped, separated by tabs: {', '.join(column.key for column in COLUMNS)}.\n"
        f"With --json, an object a line: {', '.join(FIELDS)}; with --count, one of numbers."
    )
    examples = (
        "scrapy diff news 1 2",
        "scrapy diff news 3 4 --json | jq -r 'select(.change == \"gone\").url'",
        "scrapy diff news 1 4 --count",
    )
    arguments = (3, 3)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --count and --limit."""
        super().add_options(parser)
        parser.add_argument("--count", action="store_true", help="print how many there are of each kind")
        cli.add_limit(parser, FOR_A_SCREEN)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the rows as the database hands them out, and count all of them."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.pages.rows import diff  # noqa: PLC0415

        before, after = (_run_number(arg) for arg in args[1:])
        if before == after:
            raise BadArgument(f"run {before} is compared with itself: give the numbers of two runs")
        out = Output(as_json=opts.json)
        limit = cli.limit(opts.limit, FOR_A_SCREEN if out.for_people else None)
        with self.database() as connection:
            name = rows.find_crawl(connection, args[0]).name
            for run in (before, after):
                self._check(connection, rows.find_run(connection, name, run))
            counts: Counter[str] = Counter()
            found = _counted(diff(connection, name, before, after), counts, limit)
            if opts.count:
                shown = sum(1 for _ in found)
                _print_counts(out, counts)
                return None
            shown = out.rows(COLUMNS, found)
        words = " · ".join(f"{number(counts[change])} {change}" for change in CHANGES)
        self.say(f"crawl {name}, from run {before} to run {after}: {words}")
        if shown < counts.total() - counts[UNCHANGED] and opts.limit is None:
            self.say(f"the first {limit}; --limit 0 shows all")
        return None

    def _check(self, connection: Connection[Any], run: CrawlRow) -> None:
        """Refuse a run of which nothing is known any more, and say so of one that goes on."""
        from crawlproj.pages.rows import has_fetches  # noqa: PLC0415  # keeps `scrapy` quick to start

        if run.status != "sealed":
            self.say(f"run {run.run} is not over; it is taken as it is now")
        elif (run.counts or {}).get("started_targets") and not has_fetches(connection, run.id):
            raise Refused(
                f"run {run.run} of crawl {run.name!r} cannot be compared: its days of the fetch log are gone"
            )


def _run_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST_RUN):
        raise BadArgument(f"RUN must be the number of a run, 1 or more, not {text[:80]!r}")
    return int(text)


def _counted(
    rows: Iterable[dict[str, Any]], counts: Counter[str], limit: int | None
) -> Iterator[dict[str, Any]]:
    """Yield what is to be listed, at most *limit* rows, and count what there is."""
    shown = 0
    for row in rows:
        counts[row["change"]] += row["pages"]
        if row["change"] != UNCHANGED and (limit is None or shown < limit):
            shown += 1
            yield {field: row[field] for field in FIELDS}


def _print_counts(out: Output, counts: Counter[str]) -> None:
    if out.as_json:
        out.json({change: counts[change] for change in CHANGES})
    else:
        show = number if out.for_people else str
        out.record((change, show(counts[change])) for change in CHANGES)
