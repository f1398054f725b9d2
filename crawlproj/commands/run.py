"""`scrapy run`: work what is queued."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from crawlproj import cli

if TYPE_CHECKING:
    import argparse

    import psycopg


class Command(cli.Strict):
    """Work one crawl in this process, or all that are due, one after the other."""

    requires_crawler_process = False  # as in `crawl`: nothing starts before the checks

    usage = "[NAME] [--forever] [-s NAME=VALUE …]"
    summary = "Work the crawls that are due, or one of them"
    details = (
        "NAME is a crawl's name or number: it is worked here, with the spider, the arguments and the\n"
        "settings that it was added or started with; -s goes before these. Without NAME each run that is\n"
        "due gets a worker of its own, the one that has waited longest first, until none is due; --forever\n"
        "waits for more, with NAME for the next runs of that crawl alone. What was interrupted, whoever\n"
        "started it, is due again. A crawl that is paused, or pauses itself at its start or its finish, is\n"
        "left and holds up no other; `scrapy resume` makes it due again. With NAME alone its worker stays\n"
        "and waits. As many of these may run as you like, on as many machines. A run whose worker fails\n"
        "waits for a minute, longer each time, with a note. Ctrl-C: what runs finishes, the rest is due\n"
        "again; a second one: at once.\n"
        "Exit codes: 0 nothing (more) was due; 1 a worker failed; 11 one was interrupted. With NAME those\n"
        "of `scrapy crawl`, and 3 no such crawl; 4 paused, over, or started with what is not stored."
    )
    examples = (
        "scrapy run news",
        "scrapy run news --forever    each run of a crawl that repeats, when its time comes",
        "scrapy run --forever",
        "scrapy run --forever -s MAX_CONCURRENT_COUNT=16    for every crawl that it works",
    )
    arguments = (0, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --forever."""
        super().add_options(parser)
        parser.add_argument("--forever", action="store_true", help="wait for more when nothing is due")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Work one crawl, or see to all."""
        from crawlproj.checks import check_log_file  # noqa: PLC0415  # keeps `scrapy` quick to start

        check_log_file(self.given_settings)  # before a worker fails by it, and its run has a note of that
        if args and not opts.forever:
            from crawlproj.launch import run  # noqa: PLC0415  # keeps `scrapy` quick to start

            return run(self.given_settings, args[0])

        from crawlproj.supervisor import Supervisor  # noqa: PLC0415  # keeps `scrapy` quick to start

        name = self._name_of(args[0]) if args else None
        return Supervisor(self._connect, _options(opts), say=self.say, name=name, forever=opts.forever).run()

    def _name_of(self, given: str) -> str:
        """Return the name of the crawl that a name or a number means. Raises NotFound."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        with contextlib.closing(self._connect()) as connection:
            return rows.find_crawl(connection, given).name

    def _connect(self) -> psycopg.Connection[Any]:
        from crawlproj.connections import connect_database, ensure_servers  # noqa: PLC0415

        where = ensure_servers(self.config)
        connection = connect_database(where.database_url)
        try:
            cli.settle_schema(connection, embedded=where.database_embedded)
        except BaseException:
            connection.close()
            raise
        return connection


def _options(opts: argparse.Namespace) -> list[str]:
    """Return what workers get of our own options. They leave a paused crawl: others wait for them."""
    options = ["-s", "LEAVE_WHEN_PAUSED=True"]
    for pair in opts.set:
        options += ["-s", pair]
    for option, value in (("--logfile", opts.logfile), ("--loglevel", opts.loglevel)):
        if value:
            options += [option, value]
    return [*options, "--nolog"] if opts.nolog else options
