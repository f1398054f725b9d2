"""`scrapy crawl`: Scrapy's own command, with checks before anything starts and exit codes that tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import BaseRunSpiderCommand

from crawlproj import cli

if TYPE_CHECKING:
    import argparse


class Command(cli.Strict, BaseRunSpiderCommand):
    """Crawl now, until the run is over."""

    # Scrapy would make the process, and with it the first log lines, before we have checked anything.
    requires_crawler_process = False

    usage = "SPIDER [-a NAME=VALUE …] [-s NAME=VALUE …] [-o FILE]"
    summary = "Crawl with a spider of this project, now"
    details = (
        "-a says what to crawl, -s says how. On a terminal there is a live line and a summary; with\n"
        "LOG_FILE, or when stderr is no terminal, the same goes to the log.\n"
        "Exit codes: 0 done, also by a limit; 1 error; 2 wrong usage; 3 no such spider; 4 refused by the\n"
        "state of the crawl; 5 a server cannot be reached; 11 interrupted and due again."
    )
    examples = (
        'scrapy crawl site -a seeds="https://a.example/ https://b.example/"',
        "scrapy crawl site -a seeds=@seeds.txt -a depth=3 -s CRAWL_NAME=news -s MAX_TARGET=5000",
        "scrapy crawl shop -o items.jsonl",
    )
    arguments = (1, 1)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Check, then crawl."""
        from crawlproj.launch import crawl  # noqa: PLC0415  # keeps `scrapy` quick to start

        return crawl(self.given_settings, args[0], opts.spargs)
