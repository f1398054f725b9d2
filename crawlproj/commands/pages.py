"""`scrapy pages`: what became of the URLs of a crawl."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import NotFound
from crawlproj.items import FetchStatus, HealthSignal, ScheduleStatus
from crawlproj.output import NOTHING, Column, Output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from psycopg import Connection

    from crawlproj.config import Config
    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow

FOR_A_SCREEN = 100
SHORT_ID = 10  #: digits; among a million pages one in a million shares them with another

#: What --json prints, in this order.
FIELDS = (
    "url",
    "canonical_url",
    "depth",
    "source_tag",
    "fetch_status",
    "schedule_status",
    "http_status",
    "reason",
    "attempts",
    "fetched_at",
    "object_id",
    "health_signal",
)
COLUMNS = (
    Column(title="id", key="id"),
    Column(title="url", key="url", flexible=True, keep_end=True),
    Column(title="http", key="http_status", right=True),
    Column(title="fetch", key="fetch_status"),
    Column(title="schedule", key="schedule_status", spare=1),
    Column(title="tries", key="attempts", right=True, spare=2),
    Column(title="reason", key="reason"),
)
_STATUSES = tuple(dict.fromkeys([*map(str, FetchStatus), *map(str, ScheduleStatus)]))


class Command(cli.Command):
    """List the pages of a crawl."""

    json = True
    usage = "[NAME] [--status S] [--host H] [--limit N] [--json]"
    summary = "List the pages of a crawl, as they are now"
    details = (
        "NAME is a crawl's name, for its pages over all its runs, or the number of a run, for those that it\n"
        "was the last to touch; without it, the latest crawl. A URL that still waits in the frontier is no\n"
        f"page yet. Piped, separated by tabs: {', '.join(column.key for column in COLUMNS)}.\n"
        f"With --json, an object a line: {', '.join(FIELDS)}.\n"
        "Exit code 3 if the crawl has never had the host H."
    )
    examples = (
        "scrapy pages news",
        "scrapy pages news --status failed --host m.example.hk --limit 3",
        "scrapy pages news --json | jq 'select(.health_signal.xhr_error_count > 0)'",
    )
    arguments = (0, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters."""
        super().add_options(parser)
        parser.add_argument(
            "--status", metavar="S", help=f"only this fetch_status or schedule_status: {', '.join(_STATUSES)}"
        )
        parser.add_argument("--host", metavar="H", help="only pages of this host")
        cli.add_limit(parser, FOR_A_SCREEN)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the rows as the database hands them out."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.pages.rows import list_pages  # noqa: PLC0415

        cli.words("--status", opts.status, _STATUSES)
        out = Output(as_json=opts.json)
        limit = cli.limit(opts.limit, FOR_A_SCREEN if out.for_people else None)
        with self.database() as connection:
            crawl = rows.find_crawl(connection, args[0] if args else None)
            by_number = bool(args) and args[0] != crawl.name
            found = list_pages(
                connection,
                crawl_name=crawl.name,
                crawl_id=crawl.id if by_number else None,
                status=opts.status,
                host=opts.host,
                limit=limit and limit + 1,  # one more, to know whether there are more
            )
            count = out.rows(COLUMNS, islice(_shaped(found, as_json=opts.json), limit))
            if limit and next(found, None) is not None and opts.limit is None:
                self.say(f"the first {limit}; --limit 0 shows all")
            if not count and opts.host and not self._has(connection, crawl, opts.host):
                raise NotFound(f"crawl {crawl.name!r} has no host {opts.host[:100]!r}")
        if not count:
            self.say(f"crawl {crawl.name} has no {'such ' if opts.status or opts.host else ''}page")
        return None

    def _has(self, connection: Connection[Any], crawl: CrawlRow, host: str) -> bool:
        """Say whether the crawl has met a host: it has pages of it, or some are still to come."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.pages.rows import has_host  # noqa: PLC0415

        if has_host(connection, crawl.name, host):
            return True
        latest = rows.find_crawl(connection, crawl.name)
        config = cli.spider_config(self.given_settings, latest.spider)
        return asyncio.run(_is_queued(self.addresses(), latest, config, host))


async def _is_queued(addresses: Addresses, crawl: CrawlRow, config: Config, host: str) -> bool:
    from crawlproj.frontier.codec import Codec  # noqa: PLC0415  # keeps `scrapy` quick to start

    codec = Codec.from_config(config)
    try:
        names = {host, codec.queue_of(host)}
    finally:
        codec.close()
    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        return frontier is not None and bool(await frontier.look(sorted(names)))


def shaped(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page as the contract has it; jsonb has lost the order of the health signal's fields."""
    signal = row["health_signal"]
    if signal is not None:
        signal = {field.name: signal.get(field.name) for field in fields(HealthSignal)}
    return {field: row[field] for field in FIELDS} | {"health_signal": signal}


def _shaped(rows: Iterable[dict[str, Any]], *, as_json: bool) -> Iterator[dict[str, Any]]:
    from crawlproj.frontier.canonical import page_key  # noqa: PLC0415  # keeps `scrapy` quick to start

    for row in rows:
        if as_json:
            yield shaped(row)
        else:
            digits = row["object_id"] or page_key(row["canonical_url"]).hex()
            yield row | {"id": digits[:SHORT_ID] or NOTHING}
