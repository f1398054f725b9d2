"""`scrapy pending`: what a crawl still has to fetch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import Column, Output

if TYPE_CHECKING:
    import argparse

    from crawlproj.crawls.rows import CrawlRow

FOR_A_SCREEN = 100


def _yes(value: bool) -> str:
    return "waits" if value else "-"


COLUMNS = (
    Column(title="host", key="host", flexible=True, spare=1),
    Column(title="url", key="url", flexible=True, keep_end=True),
    Column(title="depth", key="depth", right=True),
    Column(title="priority", key="priority", right=True, spare=3),
    Column(title="tries", key="attempts", right=True, spare=2),
    Column(title="tag", key="source_tag", flexible=True, spare=4),
    Column(title="retry", key="waits", show=_yes, spare=5),
)


class Command(cli.Command):
    """List what is queued."""

    json = True
    usage = "NAME [--host H] [--limit N] [--json]"
    summary = "List the URLs that a crawl still has to fetch, host by host in the order of their queues"
    details = (
        "NAME is a crawl's name or number. It is no snapshot: workers go on meanwhile, and what they have\n"
        "leased is not listed. Piped, separated by tabs: "
        f"{', '.join(column.key for column in COLUMNS)};\n"
        "`waits` says that the URL has failed before and is not due yet."
    )
    examples = (
        "scrapy pending news --host m.example.hk",
        "scrapy pending news --json > queued.jsonl",
    )
    arguments = (1, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters."""
        super().add_options(parser)
        parser.add_argument("--host", metavar="H", help="only of this host")
        cli.add_limit(parser, FOR_A_SCREEN)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print the rows as the frontier hands them out."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0])
        out = Output(as_json=opts.json)
        limit = cli.limit(opts.limit, FOR_A_SCREEN if out.for_people else None)
        count = asyncio.run(self._print(addresses, crawl, out, opts.host, limit))
        if limit and count > limit and opts.limit is None:
            self.say(f"the first {limit}; --limit 0 shows all")
        if not count:
            self.say(
                f"crawl {crawl.name}, run {crawl.run}, has nothing queued{' there' if opts.host else ''}"
            )
        return None

    async def _print(
        self, addresses: Any, crawl: CrawlRow, out: Output, host: str | None, limit: int | None
    ) -> int:
        """Print at most *limit* rows; return how many were looked at: one more if there are more."""
        from crawlproj.frontier.codec import Codec  # noqa: PLC0415
        from crawlproj.frontier.pending import pending_rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        codec = Codec.from_config(cli.spider_config(self.given_settings, crawl.spider))
        kept: list[dict[str, Any]] = []  # a table is as wide as its widest row
        count = 0
        async with cli.frontier_of(addresses, crawl, patience=None) as frontier:
            async for row in pending_rows(frontier, codec, host):
                count += 1
                if limit and count > limit:
                    break
                if out.for_people:
                    kept.append(row)
                else:
                    out.rows(COLUMNS, [row])
        if kept:
            out.rows(COLUMNS, kept)
        return count
