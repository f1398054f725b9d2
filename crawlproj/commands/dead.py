"""`scrapy dead`: what a crawl does not try again by itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import Column, Output, ago, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.frontier import Frontier

BATCH = 500


class Command(cli.Command):
    """List dead letters, or queue them again."""

    json = True
    usage = "NAME [--reason R] [--host H] [--requeue] [--json]"
    summary = "List the URLs that a crawl has given up without an answer, or queue them again"
    details = (
        "A URL goes to the dead letters when too many workers died with it (killed_its_worker) or when its\n"
        "queue entry cannot be read (unreadable). --requeue queues those that are listed again, as if they\n"
        "had never been tried. Piped, separated by tabs: id, host, url, reason, attempts, at."
    )
    examples = (
        "scrapy dead news",
        "scrapy dead news --reason killed_its_worker --requeue",
    )
    arguments = (1, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters and --requeue."""
        super().add_options(parser)
        parser.add_argument("--reason", metavar="R", help="only those of this reason")
        parser.add_argument("--host", metavar="H", help="only those of this host")
        parser.add_argument("--requeue", action="store_true", help="queue them again")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """List, or queue again."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0])
        out = Output(as_json=opts.json)
        if opts.requeue:
            count = asyncio.run(self._requeue(addresses, crawl, opts))
            if out.as_json:
                out.json({"requeued": count})
            else:
                out.line(f"{number(count)} queued again")
            return None
        found = asyncio.run(self._list(addresses, crawl, opts))
        if not out.rows(_columns(datetime.now(UTC)), found):
            such = "such " if opts.reason or opts.host else ""
            self.say(f"crawl {crawl.name}, run {crawl.run}, has no {such}dead letter")
        return None

    async def _list(self, addresses: Any, crawl: CrawlRow, opts: argparse.Namespace) -> list[dict[str, Any]]:
        async with cli.frontier_of(addresses, crawl) as frontier:
            return [row async for row in self._letters(frontier, crawl, opts)]

    async def _requeue(self, addresses: Any, crawl: CrawlRow, opts: argparse.Namespace) -> int:
        async with cli.frontier_of(addresses, crawl) as frontier:
            ids = [row["id"] async for row in self._letters(frontier, crawl, opts)]
            return sum([await frontier.requeue(ids[i : i + BATCH]) for i in range(0, len(ids), BATCH)])

    async def _letters(
        self, frontier: Frontier, crawl: CrawlRow, opts: argparse.Namespace
    ) -> AsyncIterator[dict[str, Any]]:
        from crawlproj.frontier.codec import Codec  # noqa: PLC0415
        from crawlproj.frontier.pending import shown_entry  # noqa: PLC0415  # keeps `scrapy` quick to start

        codec = Codec.from_config(cli.spider_config(self.given_settings, crawl.spider))
        async for letter in frontier.dead_letters():
            if opts.reason not in {None, letter.reason} or opts.host not in {None, letter.host}:
                continue
            yield {
                "id": letter.id,
                "host": letter.host,
                "url": shown_entry(codec, letter.host, letter.entry)["url"],
                "reason": letter.reason,
                "attempts": letter.attempts,
                "at": letter.at,
            }


def _columns(now: datetime) -> tuple[Column, ...]:
    return (
        Column(title="id", key="id", spare=3),
        Column(title="host", key="host", flexible=True, spare=2),
        Column(title="url", key="url", flexible=True, keep_end=True),
        Column(title="reason", key="reason"),
        Column(title="tries", key="attempts", right=True, spare=1),
        Column(title="died", key="at", show=partial(ago, now=now)),
    )
