"""`scrapy rebuild`: fill a lost frontier again."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import Refused
from crawlproj.output import Output, is_terminal, number

if TYPE_CHECKING:
    import argparse

    from psycopg import Connection

    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.rebuild import Rebuilt

LOOK_SECONDS = 1.0


class Command(cli.Command):
    """Rebuild the frontier of a run."""

    json = True
    usage = "NAME [--force] [-s NAME=VALUE …] [--json]"
    summary = "Fill the frontier of a crawl again, when Redis has lost it"
    details = (
        "NAME is a crawl's name or number. PostgreSQL knows which pages have been fetched and which links\n"
        "were found on them: what is done is marked seen, what is not is queued again. Nothing is fetched\n"
        "meanwhile; afterwards workers go on as before, and their start requests come in with the first of\n"
        "them. The crawl's own settings count, and -s before them. What an operator has turned, blocked or\n"
        "re-queued since its start is not known any more. Killed half-way it can be started again.\n"
        "Exit codes: 3 no such crawl; 4 it is over, keeps no links, or has a frontier (see --force)."
    )
    examples = (
        "scrapy rebuild news",
        "scrapy rebuild news --force    add what is missing to a frontier that is there",
    )
    arguments = (1, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --force."""
        super().add_options(parser)
        parser.add_argument(
            "--force", action="store_true", help="also where there is a frontier: add what it lacks"
        )

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Check, rebuild, say what there is now."""
        from crawlproj import rebuild  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0])
            rebuild.check(connection, crawl)
            done = asyncio.run(self._rebuild(addresses, connection, crawl, force=opts.force))
        out = Output(as_json=opts.json)
        if out.as_json:
            out.json({"name": crawl.name, "run": crawl.run, **asdict(done)})
            return None
        words = [f"{number(done.seen)} pages seen", f"{number(done.queued)} URLs queued"]
        if done.retries:
            words.append(f"{number(done.retries)} of them retries")
        out.line(f"rebuilt · {' · '.join(words)}")
        if done.unreadable:
            self.say(f"{number(done.unreadable)} stored links cannot be read any more and are left out")
        self.say(f"go on with: scrapy run {shlex.quote(crawl.name)}")
        return None

    async def _rebuild(
        self, addresses: Addresses, connection: Connection[Any], crawl: CrawlRow, *, force: bool
    ) -> Rebuilt:
        from crawlproj import rebuild  # noqa: PLC0415
        from crawlproj.connections import open_scripts  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.crawls.config import CrawlConfig  # noqa: PLC0415
        from crawlproj.frontier.codec import Codec  # noqa: PLC0415
        from crawlproj.frontier.frontier import Frontier  # noqa: PLC0415

        if not force and not rebuild.is_unfinished(connection, crawl.id):
            await _require_none(addresses, crawl)
        settings = self.given_settings
        CrawlConfig.from_json(crawl.config).put_settings(settings)
        config = cli.spider_config(settings, crawl.spider)
        redis, scripts = open_scripts(addresses)
        progress = _Progress()
        try:
            return await rebuild.rebuild(
                connection,
                Frontier(redis, scripts, crawl.frontier, config.partitions),
                Codec.from_config(config),
                config,
                crawl,
                progress=progress.show,
            )
        finally:
            progress.end()
            await scripts.close()
            await redis.aclose()


async def _require_none(addresses: Addresses, crawl: CrawlRow) -> None:
    """Raise Refused when there is a frontier with something in it."""
    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return
        figures = await frontier.refresh()
    if figures.queued or figures.leased or figures.seen or figures.started:
        raise Refused(
            f"crawl {crawl.name!r}, run {crawl.run}, has its frontier: {number(figures.queued)} queued, "
            f"{number(figures.seen)} seen; --force adds what it lacks"
        )


class _Progress:
    """A line on a terminal that says how far it is."""

    def __init__(self) -> None:
        self._shows = is_terminal(sys.stderr)
        self._due = time.monotonic() + LOOK_SECONDS
        self._shown = False

    def show(self, done: Rebuilt) -> None:
        """Say it, once a second."""
        if self._shows and time.monotonic() >= self._due:
            self._due = time.monotonic() + LOOK_SECONDS
            self._shown = True
            text = f"{number(done.seen)} pages seen · {number(done.queued)} URLs queued"
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
